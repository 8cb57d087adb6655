"""`python -m multiway` is the command `multiway`."""

from multiway.cli import main

if __name__ == "__main__":
    main()
