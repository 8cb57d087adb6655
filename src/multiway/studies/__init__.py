"""The paper as declared studies: what is measured, and what came of it."""
