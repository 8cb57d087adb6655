"""The server: this machine alone, one attack at a time, every failure an answer."""

from __future__ import annotations

import base64
import http.client
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

import multiway as mw
from multiway.explore import Explorer, Server, Source
from multiway.explore.codes import Cloud
from multiway.explore.compute import look
from multiway.explore.draw import cloud_figure, image_address, signed_address
from multiway.explore.settings import Settings, parse_settings


def ask(server: Server, path: str, host: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {"Host": host} if host else {}
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    status, body = response.status, response.read()
    connection.close()
    return status, body


def answer(server: Server, name: str, **query: object) -> dict[str, Any]:
    status, body = ask(server, f"/api/{name}?{urlencode(query)}")
    assert status == 200
    document: dict[str, Any] = json.loads(body)
    return document


def pixels(address: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def test_it_is_for_this_machine_alone(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert ask(server, "/")[0] == 200
    assert ask(server, "/", host="evil.example")[0] == 403
    assert ask(server, "/api/start", host="evil.example")[0] == 403
    assert ask(server, "/", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("path", ["/nothing", "/page/../server.py", "/%2e%2e/server.py", "//x"])
def test_nothing_else_is_served(server: Server, path: str) -> None:
    assert ask(server, path)[0] == 404
    assert ask(server, "/?" + "x" * 5000)[0] == 414


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"image": 90}, "image is a whole number from 0 to 89"),
        ({"image": "x"}, "image is a whole number"),
        ({"on": "rho"}, "did you mean 'ro'"),
        ({"attack": "cw"}, "unknown attack 'cw'"),
        ({"objective": "loss"}, "unknown objective"),
        ({"eps": "nan"}, "eps is how far a pixel may change"),
        ({"eps": "2"}, "from 0 (no attack) to 1"),
        ({"eps": "big"}, "eps is a number"),
        ({"steps": 51}, "from 1 to 50"),
        ({"target": 3}, "target is a whole number from 0 to 2"),
        ({"objective": "dlr", "target": 1}, "needs 4 classes"),
    ],
)
def test_what_cannot_be_is_said(server: Server, query: dict[str, object], message: str) -> None:
    for name in ("look", "breaking", "codes"):
        assert message in answer(server, name, **query)["error"]


def test_a_network_that_raises_is_an_answer(server: Server, explorer: Explorer) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such layer")

    handle = explorer.models["1ofk"].register_forward_pre_hook(fail)
    assert "no such layer" in answer(server, "look", image=3)["error"]
    handle.remove()
    assert "verdict" in answer(server, "look", image=3)


def test_many_at_once_get_what_each_would_get_alone(server: Server, explorer: Explorer) -> None:
    questions = [
        {"image": image, "on": on, "attack": attack, "objective": "own", "steps": 3}
        for image in (0, 1, 2)
        for on in ("1ofk", "ro")
        for attack in ("fgsm", "pgd")
    ]

    def strip(document: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in document.items() if key != "milliseconds"}

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: answer(server, "look", **query), questions))
    explorer._answers.clear()
    alone = [answer(server, "look", **query) for query in questions]
    assert [strip(one) for one in together] == [strip(one) for one in alone]
    assert not any(model.training for model in explorer.models.values())


def test_figures_are_plotlys_and_pictures_the_pixels(server: Server, explorer: Explorer) -> None:
    document = answer(server, "look", image=4, on="ro", other="1ofk", attack="pgd", steps=5)
    clean = (explorer.images[4, 0] * 255).round().byte().numpy()
    assert (pixels(document["clean"]) == clean).all()
    for figure in [document["path"], *(model["figure"] for model in document["models"])]:
        go.Figure(figure)  # refuses whatever plotly does not know
    assert [len(trace["y"]) for trace in document["path"]["data"]] == [6, 6]
    go.Figure(answer(server, "breaking", image=4)["figure"])
    for cloud in answer(server, "codes", image=4)["clouds"]:
        go.Figure(cloud["figure"])


def test_the_legend_names_a_class_of_which_all_are_wrong() -> None:
    wrong = torch.tensor([[False, False, True, True, False, True]])  # of class 1 all are
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    cloud = Cloud("model", (0, 1, 2), labels, torch.rand(1, 6, 3), wrong)
    traces = cloud_figure(cloud, ("a", "b", "c"))["data"]
    named = [trace for trace in traces if trace["showlegend"]]
    assert [trace["name"] for trace in named] == ["a", "b", "c"]
    assert all(len(trace["x"]) > 0 for trace in named)


@pytest.mark.parametrize("attack", [mw.PGD, mw.APGD])
def test_watching_changes_nothing(explorer: Explorer, attack: type[mw.PGD]) -> None:
    """Convolutions are folded and rearranged by an attack, which must not see that it is seen."""
    for name, objective in (("ro", "own"), ("ro", "margin"), ("1ofk", "ce")):
        settings = Settings(5, name, "ro", attack.__name__.lower(), objective, 0.15, 4)
        label = int(explorer.labels[5])
        view = look(explorer.models, explorer.images[5], label, settings)
        made = attack(mw.Linf(0.15), steps=4, objective=objective, early_stop=False)
        result = made(explorer.models[name], explorer.images[5:6], explorer.labels[5:6])
        assert torch.equal(view.adversarial, result.adversarial[0])
        assert view.remarks == ()
        assert len(view.models[0].path) == int(result.backwards) + 1
        if objective == "margin":  # then the attack's own curve is the path, in Eq. 5's units
            book = explorer.models[name].encoding.codebook  # type: ignore[union-attr]
            scale = 2 / (book.length * book.score_scale)  # type: ignore[union-attr, operator]
            climbed = (-scale * view.models[0].path).tolist()[: int(result.backwards)]
            assert climbed == pytest.approx(result.loss_curve[: len(climbed)].tolist(), rel=1e-3)


def test_the_python_lines_make_the_same_image(
    explorer: Explorer, capsys: pytest.CaptureFixture[str]
) -> None:
    for settings in (
        Settings(5, "ro", "1ofk", "pgd", "own", 0.15, 4, 1),
        Settings(5, "1ofk", "1ofk", "fgsm", "margin", 0.1, 4),
    ):
        document = explorer.look(dict(parse_qsl(settings.query())))
        space: dict[str, Any] = {}
        exec(document["python"], space)  # the lines that the page shows
        made = (space["result"].adversarial[0] * 255).round().byte()
        assert (pixels(document["adversarial"]) == made[0].numpy()).all()
        assert f"tensor([{int(space['result'].predictions)}])" in capsys.readouterr().out


@pytest.mark.parametrize(("attack", "steps"), [("fgsm", 1), ("pgd", 10), ("apgd", 10), ("pgd", 20)])
def test_an_interaction_takes_a_blink(attack: str, steps: int) -> None:
    """Under 300 ms of one core from the question to its answer, for the demo's networks."""
    images = torch.randint(0, 256, (8, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    names = [str(number) for number in range(10)]
    models = {}
    for name, length in (("1ofk", 10), ("ro", 2000)):
        network = mw.backbones.build_backbone("wong", outputs=length)
        models[name] = mw.EncodedClassifier(network, mw.Encoding.make(name, 10)).eval()
    explorer = Explorer(
        models=models,
        sources={name: Source(None, name, name) for name in models},
        data=mw.data.ImageSet("noise", "test", images.byte(), torch.arange(8), tuple(names)),
        eps=0.2,
        data_python="data",
    )
    seconds = []
    for image in range(8):
        started = time.thread_time()
        json.dumps(explorer.look({"image": str(image), "attack": attack, "steps": str(steps)}))
        seconds.append(time.thread_time() - started)
    assert sorted(seconds)[4] < 0.3


def test_an_address_holds_the_settings(explorer: Explorer) -> None:
    settings = Settings(7, "ro", "1ofk", "apgd", "dlr", 8 / 255, 12, None)
    read = parse_settings(
        dict(parse_qsl(settings.query())), explorer.default, explorer.models, 90, "abc"
    )
    assert read.query() == settings.query()
    assert read.eps == pytest.approx(8 / 255, rel=1e-5)


def test_own_is_not_offered_where_no_training_loss_is_known(explorer: Explorer) -> None:
    foreign = {"net": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))}
    with pytest.raises(mw.MultiwayError, match="none is known of net; take ce, margin, dlr"):
        query = {"on": "net", "other": "net", "objective": "own"}
        parse_settings(query, explorer.default, foreign, 90, "abc")


def test_a_port_in_use_is_said(server: Server, explorer: Explorer) -> None:
    with pytest.raises(mw.MultiwayError, match=f"cannot serve on port {server.server_port}"):
        Server(explorer, server.server_port)


def test_signed_values_are_white_at_zero_and_coloured_at_the_ends() -> None:
    drawn = pixels(signed_address(torch.tensor([[[-2.0, 0.0, 2.0]]])))[0].tolist()
    assert drawn == [[0, 114, 178], [255, 255, 255], [213, 94, 0]]
    assert (pixels(signed_address(torch.zeros(3, 2, 2))) == 255).all()
    assert pixels(image_address(torch.rand(2, 3, 3))).shape == (3, 3)  # no colours of its own
