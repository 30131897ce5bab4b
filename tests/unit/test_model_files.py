"""A user's own model: exported, scripted, imported; and what is refused."""

import contextlib
import io
import json
import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import tollbox as tb
from tollbox.core.device import set_tf32, tf32_setting, tf32_turned
from tollbox.errors import FileError, InputError
from tollbox.models import archives, from_torch, loading
from tollbox.models import compilation as compiled
from tollbox.models.pytorch import Running

load_model = partial(loading.load_model, trust=True)
load_network = partial(loading.load_network, trust=True)
IMAGE = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*body, nn.Dropout(0.5), nn.Linear(4, 5)).eval()


def export(file: Path, net: nn.Module, rows: int | None, most: int = 4096) -> str:
    example = torch.rand(rows or 3, 3, 6, 6)
    shapes = None if rows else ({0: torch.export.Dim("n", min=1, max=most)},)
    torch.export.save(torch.export.export(net, (example,), dynamic_shapes=shapes), file)
    return str(file)


def script(file: Path, net: nn.Module) -> str:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        torch.jit.save(torch.jit.script(net), file)
    return str(file)


def expected(images: torch.Tensor) -> list[int]:
    with torch.inference_mode():
        return network()((images - 0.4) / 0.2).argmax(1).tolist()


def test_files_answer_as_the_network_does(tmp_path: Path) -> None:
    images = torch.rand(7, 3, 6, 6)
    for given in (
        export(tmp_path / "any.pt2", network(), None),
        script(tmp_path / "script.pt", network().train()),
        export(tmp_path / "misnamed.pt", network(), None),
    ):
        model = load_model(given, IMAGE, mean=[0.4], std=[0.2, 0.2, 0.2], quantize=8)
        assert model(images).tolist() == expected(images)
        assert (model.batch, model.classes, model.quantize) == (None, 5, 8)


def test_files_are_surrogates_as_the_network_is(tmp_path: Path) -> None:
    """The same digest and the same gradient, whatever they are saved as."""
    problem, points = tb.attack.Problem(IMAGE, 2), torch.stack([IMAGE, IMAGE / 2])
    for given, size in (
        (export(tmp_path / "any.pt2", network(), None), 6),
        (export(tmp_path / "one.pt2", network(), 1), 6),
        (script(tmp_path / "script.pt", network().train()), None),
    ):
        own = tb.Surrogate(network(), mean=0.4, size=size)
        surrogate = tb.Surrogate([load_network(given)], mean=0.4)
        assert surrogate == own
        assert surrogate.classes(IMAGE) == (5,)
        [[margins, gradients]], [wanted] = (s.margins(problem, points) for s in (surrogate, own))
        assert torch.allclose(margins, wanted.margins, atol=1e-6)
        assert torch.allclose(gradients, wanted.gradients, atol=1e-6)
    with pytest.raises(InputError, match=r"two\.pt2 takes only batches of 2: expected one that"):
        load_network(export(tmp_path / "two.pt2", network(), 2))
    fixed = tb.Surrogate([load_network(str(tmp_path / "one.pt2"))])
    assert fixed.classes(torch.rand(3, 7, 7)) == (5,)  # it is resized
    with pytest.raises(InputError, match=r"takes 3 channels, but the images have 1: expected the"):
        fixed.classes(torch.rand(1, 6, 6))


def test_fixed_batch_is_run_at_that_batch(tmp_path: Path) -> None:
    model = load_model(export(tmp_path / "four.pt2", network(), 4), IMAGE, mean=[0.4], std=[0.2])
    images = torch.rand(4, 3, 6, 6)
    assert model.batch == 4
    assert model(images).tolist() == expected(images)
    assert load_model(export(tmp_path / "16.pt2", network(), None, 16), IMAGE).batch == 16
    with pytest.raises(InputError, match=r"^batch_size is 3, but .* takes only 4"):
        load_model(str(tmp_path / "four.pt2"), IMAGE, batch_size=3)


def test_any_batch_within_the_range_of_an_export(tmp_path: Path) -> None:
    given = export(tmp_path / "m.pt2", network(), None, 256)
    assert load_model(given, IMAGE).batch == 64
    model = load_model(given, IMAGE, mean=[0.4], std=[0.2], batch_size=128)
    images = torch.rand(128, 3, 6, 6)
    assert model.batch == 128
    assert model(images).tolist() == expected(images)
    with pytest.raises(InputError, match=r"^batch_size is 257, but .* takes only \d to 256"):
        load_model(given, IMAGE, batch_size=257)
    wide = export(tmp_path / "w.pt2", network(), None, 600)
    assert load_model(wide, IMAGE, batch_size=600).batch is None
    with pytest.raises(InputError, match=r"takes only \d to 600"):
        load_model(wide, IMAGE, batch_size=601)


def test_labels_instead_of_logits(tmp_path: Path) -> None:
    class Decides(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return (images.mean((1, 2, 3)) > 0.5).long()

    model = load_model(export(tmp_path / "d.pt2", Decides(), None), IMAGE)
    assert model.classes is None
    assert model(torch.stack([IMAGE * 0, IMAGE * 0 + 1])).tolist() == [0, 1]


class Wrapped(nn.Module):
    """A network that answers with a dict, or with a tuple."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.network, self.kind = network(), kind

    def forward(self, images: torch.Tensor) -> object:
        logits = self.network(images)
        return {"logits": logits} if self.kind == "dict" else (logits, logits[:, :2])


@pytest.mark.parametrize("kind", ["dict", "tuple"])
def test_logits_are_found_in_what_a_file_or_function_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    images = torch.rand(4, 3, 6, 6)
    wanted = network()(images).argmax(1).tolist()
    net = Wrapped(kind).eval()
    module = ModuleType("wrapped")
    module.net, module.function = net, lambda images: net(images)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wrapped", module)
    for source in (
        export(tmp_path / "net.pt2", net, None),
        "wrapped:net",
        "wrapped:function",
    ):
        model = load_model(source, IMAGE)
        assert (model.classes, model(images).tolist()) == (5, wanted)


def test_what_files_and_functions_take_of_how_networks_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, net = ModuleType("running"), network().train()
    module.net, module.function = net, lambda images: net(images)  # type: ignore[attr-defined]
    module.model = from_torch(net)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "running", module)
    program, scripted = (
        export(tmp_path / "net.pt2", network(), None),
        script(tmp_path / "net.pt", network()),
    )
    options = {"dtype": torch.float16, "channels_last": False, "compile": True}
    options |= {"cuda_graphs": True, "tf32": True}
    for source, kind, taken in (
        ("running:function", "a function of images", set()),
        ("running:model", "a model that is ready for queries", set()),
        (program, "an exported program", {"compile", "cuda_graphs", "tf32"}),
        (scripted, "TorchScript", {"cuda_graphs", "tf32"}),
    ):
        for name in options.keys() - taken:
            given = {name: options[name]}
            with pytest.raises(InputError, match=rf"^{name} is given, but .* is {kind}: expected"):
                load_model(source, IMAGE, **given)
        load_model(source, IMAGE, dtype=None, compile=False, cuda_graphs=False)
    images = torch.rand(7, 3, 6, 6)
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    for source in ("running:net", program):
        model = load_model(source, IMAGE, mean=[0.4], std=[0.2], compile=True)
        assert model.outputs.network._shapes == set()  # nothing is compiled for one image
        assert model(images).tolist() == expected(images)
        assert model.outputs.network._shapes == {images.shape}
        assert model.running["compile"] == "true"
    assert net.training


def test_tf32_is_off_for_files_and_names_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = tf32_setting(), []
    module, net = ModuleType("looking"), network()
    module.net = net  # type: ignore[attr-defined]
    module.function = lambda images: seen.append(tf32_setting()) or net(images)  # type: ignore
    net.register_forward_pre_hook(lambda *_: seen.append(tf32_setting()))
    monkeypatch.setitem(sys.modules, "looking", module)
    file = load_model(script(tmp_path / "net.pt", network()), IMAGE)
    models = [load_model(f"looking:{name}", IMAGE) for name in ("net", "function")]
    models.append(replace(file, outputs=replace(file.outputs, network=module.function)))
    try:
        set_tf32(tf32_turned(True))
        for model in models:
            seen.clear()
            model.outputs(IMAGE[None])
            assert set(seen) == {tf32_turned(False)}
        assert tf32_setting() == tf32_turned(True)
    finally:
        set_tf32(before)
    on_cuda = {"device": torch.device("cuda"), "dtype": torch.float32}
    assert Running().words(**on_cuda)["tf32"] == "false"
    assert Running(tf32=True).words(**on_cuda)["tf32"] == "true"


def test_half_precision_files_are_asked_in_float32(tmp_path: Path) -> None:
    net, half = network().half(), tmp_path / "half.pt2"
    torch.export.save(torch.export.export(net, (torch.rand(2, 3, 6, 6).half(),)), half)
    for file in (str(half), script(tmp_path / "half.pt", network().half())):
        model = load_model(file, IMAGE)
        assert model.dtype == torch.float32
        assert model.outputs(torch.rand(2, 3, 6, 6)).dtype == torch.float16


def test_double_precision_is_kept(tmp_path: Path) -> None:
    net, file = network().double(), tmp_path / "d.pt2"
    torch.export.save(torch.export.export(net, (torch.rand(2, 3, 6, 6).double(),)), file)
    assert load_model(str(file), IMAGE).dtype == torch.float64


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("sprung"),))


def test_pickles_are_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, thing in {
        "state.pt": network().state_dict(),
        "whole.pt": network(),
        "t": Trap(),
    }.items():
        torch.save(thing, tmp_path / name)
        with pytest.raises(FileError, match=r"pickle.*torch\.export\.save.*torch\.jit\.save"):
            load_model(str(tmp_path / name), IMAGE)
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(FileError, match="neither an exported program nor TorchScript"):
        load_model("old.pt", IMAGE)
    export(tmp_path / "good.pt2", network(), 2)
    torch.save((Trap(),), tmp_path / "trap")
    with (
        zipfile.ZipFile(tmp_path / "good.pt2") as good,
        zipfile.ZipFile(tmp_path / "evil.pt2", "w", zipfile.ZIP_STORED) as evil,
    ):
        for name in good.namelist():
            swap = name.endswith("sample_inputs/model.pt")
            evil.writestr(name, (tmp_path / "trap").read_bytes() if swap else good.read(name))
    with pytest.raises(FileError, match="cannot be loaded"):
        load_model("evil.pt2", IMAGE)
    assert not (tmp_path / "sprung").exists()
    torch.load(tmp_path / "trap", weights_only=False)
    assert (tmp_path / "sprung").exists()  # the trap works


COMMAND = "__import__('pathlib').Path('sprung').touch()"

Edit = Callable[[dict[str, bytes], dict], None]


def crafted(given: str, file: Path, edit: Edit) -> str:
    """An exported program whose entries (without their folder) and JSON are edited."""
    with zipfile.ZipFile(given) as good:
        parts = {name.partition("/")[2]: good.read(name) for name in good.namelist()}
    program = json.loads(parts["models/model.json"])
    edit(parts, program)
    parts["models/model.json"] = json.dumps(program).encode()
    with zipfile.ZipFile(file, "w") as evil:
        for name, content in parts.items():
            evil.writestr(f"{file.stem}/{name}", content)
    return str(file)


def replaced(old: str, new: str) -> Edit:
    def edit(_: dict[str, bytes], program: dict) -> None:
        text = json.dumps(program)
        assert json.dumps(old)[1:-1] in text
        changed = json.loads(text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1]))
        program.clear()
        program.update(changed)

    return edit


def node(target: str, *arguments: dict) -> Edit:
    """A further node, whose value nothing uses."""

    def edit(_: dict[str, bytes], program: dict) -> None:
        inputs = [{"name": "", "arg": each, "kind": 1} for each in arguments]
        added = {"target": target, "inputs": inputs, "outputs": [], "metadata": {}, "name": "first"}
        program["graph_module"]["graph"]["nodes"].insert(0, added)

    return edit


def pickled(parts: dict[str, bytes], program: dict) -> None:
    config = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    config["tensor_meta"] = None
    parts["data/constants/opaque_obj_0"] = pickle.dumps(Trap())
    name = "data/constants/model_constants_config.json"
    parts[name] = json.dumps({"config": {"trap": config}}).encode()


def with_library(parts: dict[str, bytes], program: dict) -> None:
    parts["data/aotinductor/model/trap.so"] = b"native code"


def wrapped(parts: dict[str, bytes], program: dict) -> None:
    text, symbol = json.dumps(program), r"Symbol\('\w+', positive=True, integer=True\)"
    changed = re.sub(symbol, lambda found: f"Max(0 * len(str({COMMAND})), {found[0]})", text)
    assert changed != text
    program.update(json.loads(changed))


def guarded(parts: dict[str, bytes], program: dict) -> None:
    program["guards_code"] = [f"{COMMAND} is None"]


def example(parts: dict[str, bytes], program: dict) -> None:
    buffer = io.BytesIO()
    torch.save((({f"""'" + str({COMMAND}) + "'""": torch.rand(2, 3, 6, 6)},), {}), buffer)
    parts["data/sample_inputs/model.pt"] = buffer.getvalue()


ENUM = '{\\"__enum__\\": true, \\"fqn\\": \\"trap:Trap\\", \\"name\\": \\"A\\"}'
CRAFTED: dict[str, tuple[Edit, bool]] = {
    "argument": (wrapped, True),
    "sum": (replaced("integer=True)", f"integer=True) + 0 * len(str({COMMAND}))"), True),
    "text within an expression": (replaced("Symbol('", f'Max("{COMMAND}") + Symbol(\''), False),
    "attribute": (replaced("integer=True)", "integer=True).__class__"), False),
    "guard": (guarded, True),
    "target in torch": (node("torch.os.system", {"as_string": "touch sprung"}), False),
    "library": (node("torch.ops.load_library", {"as_string": "trap.so"}), False),
    "file": (node("torch.ops.aten.from_file.default", {"as_string": "trap"}), False),
    "method": (node("_operator.methodcaller", {"as_string": "unlink"}), False),
    "extension": (node("#trap:op"), False),
    "name of a node": (replaced("p_0_weight", f"a={COMMAND}"), False),
    "name of a weight": (replaced("0.weight", f'0.a") or {COMMAND} or ("'), False),
    "pickled constant": (pickled, True),
    "native library": (with_library, False),
    "example inputs": (example, False),
    "default dict": (replaced("builtins.dict", "collections.defaultdict"), False),
    "enum": (replaced('"context": "[]"', f'"context": "{ENUM}"'), False),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_programs_are_refused_before_torch_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    good, (edit, works) = export(tmp_path / "good.pt2", network(), None), CRAFTED[name]
    file = crafted(good, tmp_path / "evil.pt2", edit)
    with pytest.raises(FileError, match=r"evil\.pt2 is not loaded, even though it is trusted: "):
        load_model(file, IMAGE)
    assert not Path("sprung").exists()
    if works:  # torch itself does run the code
        with contextlib.suppress(Exception):
            torch.export.load(file).module()(IMAGE[None].repeat(3, 1, 1, 1))
        assert Path("sprung").exists()


def test_texts_that_torch_quotes_and_prints_are_harmless() -> None:
    """torch puts a text input between quotes into a guard, and metadata into comments."""
    program = {"as_string": f"' + {COMMAND} + '", "metadata": {"stack_trace": f"a\n{COMMAND}"}}
    cleaned = archives._checked({**program, "name": "a", "as_int": 3})
    assert not {*cleaned["as_string"]} & {*"'\"\\\n"}
    assert (cleaned["metadata"], cleaned["name"], cleaned["as_int"]) == ({}, "a", 3)


def test_files_that_can_run_code_need_trust(tmp_path: Path) -> None:
    program, text = export(tmp_path / "a.pt2", network(), 1), "which can run code"
    for file in (program, script(tmp_path / "a.pt", network())):
        for load in (
            loading.load_model,
            tb.models.load,
            lambda given, _: loading.load_network(given),
        ):
            with pytest.raises(FileError, match=rf"{text}.*onnx:FILE.*--trust-model .*trust=True"):
                load(file, IMAGE)
    with pytest.raises(InputError, match=r"^trust is 'yes': expected True or False"):
        load_model(program, IMAGE, trust="yes")


def test_script_that_opens_files_is_refused(tmp_path: Path) -> None:
    class Writes(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            torch.from_file("sprung", shared=True, size=4, dtype=torch.uint8).fill_(65)
            return images.mean((2, 3))

    with pytest.raises(FileError, match=r"w\.pt is not loaded.*opens files"):
        load_model(script(tmp_path / "w.pt", Writes()), IMAGE)


def test_damaged_and_expanding_archives_are_refused(tmp_path: Path) -> None:
    for file in (export(tmp_path / "a.pt2", network(), 1), script(tmp_path / "a.pt", network())):
        content = bytearray(Path(file).read_bytes())
        weights = network()[5].weight.detach().numpy().tobytes()
        content[content.index(weights)] ^= 1
        Path(file).write_bytes(content)
        with pytest.raises(FileError, match=r"cannot be loaded \(BadZipFile: Bad CRC-32 for file"):
            load_model(file, IMAGE)
    with zipfile.ZipFile(tmp_path / "b.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/archive_format", "pt2")
        archive.writestr("b/data/weights/weight_0", bytes(10**7))
    with pytest.raises(FileError, match=r"it expands to 10,000,003 bytes"):
        load_model(str(tmp_path / "b.pt2"), IMAGE)


def test_ordinary_programs_pass_the_checks(tmp_path: Path) -> None:
    """Any height and width give expressions and guards; metadata has quotes and newlines."""

    class Scaled(nn.Module):
        def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
            with torch.no_grad():
                large = nn.functional.interpolate(images, scale_factor=1.5, mode="bilinear")
            return {"logits": nn.functional.gelu(large[:, :, ::2]).amax((2, 3))}

    any_size = dict.fromkeys((0, 2, 3), torch.export.Dim.AUTO)
    program = torch.export.export(Scaled(), (torch.rand(3, 3, 8, 8),), dynamic_shapes=(any_size,))
    assert program._guards_code
    torch.export.save(program, tmp_path / "any.pt2", extra_files={"about.txt": "a"})
    model = load_model(str(tmp_path / "any.pt2"), IMAGE)
    images = torch.rand(4, 3, 6, 6)
    assert model(images).tolist() == Scaled()(images)["logits"].argmax(1).tolist()


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere\.pt2 does not exist"):
        load_model(str(tmp_path / "nowhere.pt2"), IMAGE)
    with pytest.raises(FileError, match="is a folder"):
        load_model(str(tmp_path), IMAGE)
    with pytest.raises(FileError, match="File name too long"):
        load_model("x" * 300, IMAGE)
    with pytest.raises(InputError, match=r"^model is '': expected a file made with torch\."):
        load_model("", IMAGE)
    file = tmp_path / "x.pt2"
    file.write_bytes(b"nonsense")
    with pytest.raises(FileError, match="neither"):
        load_model(str(file), IMAGE)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(FileError, match="not a model"):
        load_model(str(file), IMAGE)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/archive_format", "pt2")
    with pytest.raises(FileError, match="cannot be loaded"):
        load_model(str(file), IMAGE)


def test_images_that_the_model_does_not_take(tmp_path: Path) -> None:
    given = export(tmp_path / "m.pt2", network(), None)
    with pytest.raises(InputError, match=r"takes images of shape \(3, 6, 6\).*\(1, 6, 6\)"):
        load_model(given, IMAGE[:1])
    with pytest.raises(
        InputError, match=r"failed on a batch of 1 .* of shape \(1, 6, 6\)"
    ) as error:
        load_model(script(tmp_path / "m.pt", network()), IMAGE[:1])
    assert "to have 3 channels, but got 1 channels instead" in str(error.value)  # torch's last line
    assert "TorchScript interpreter" not in str(error.value)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ([0.1, 0.2], None, "mean has 2 numbers, but the images have 3 channels"),
        (None, [1.0] * 4, "std has 4 numbers"),
        (None, [0.0], "std is 0: expected finite numbers above 0"),
        ([float("nan")], None, "mean is nan"),
    ],
)
def test_mean_and_std(
    tmp_path: Path, mean: list[float] | None, std: list[float] | None, message: str
) -> None:
    given = export(tmp_path / "m.pt2", network(), None)
    with pytest.raises(InputError) as error:
        load_model(given, IMAGE, mean=mean, std=std)
    assert message in str(error.value)


MODULE = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5)).train()
def listed(images):
    return [1 if image.mean() > 0.5 else 0 for image in images]
def logits(images):
    return images.mean((2, 3))
def fails(images):
    raise KeyError("no")
def odd(images):
    return "labels"
def floats(images):
    return images.mean((1, 2, 3))
number = 3
"""


def test_module_and_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_own_models.py").write_text(MODULE)
    (tmp_path / "my_broken_models.py").write_text("1 / 0")
    assert load_model("my_own_models:net", IMAGE).classes == 5
    assert load_model("my_own_models:logits", IMAGE).classes == 3
    listed = load_model("my_own_models:listed", IMAGE)
    assert listed(torch.stack([IMAGE * 0, IMAGE * 0 + 1])).tolist() == [0, 1]
    for given, message in {
        "my_own_models:fails": "failed on a batch of 1 of the given images.*KeyError: 'no'",
        "my_own_models:odd": "answered with str",
        "my_own_models:floats": "expected integer labels",
        "my_own_models:nothing": "has no attribute 'nothing'",
        "my_own_models:number": "which is int",
        "my_own_models:nn.Linear": "which is a class",
        "my_missing_models:net": "No module named 'my_missing_models'",
        "my_broken_models:net": "importing my_broken_models failed: ZeroDivisionError",
        "nothing": "does not exist",
    }.items():
        with pytest.raises(InputError, match=message):
            load_model(given, IMAGE)


def test_logits_of_a_file_and_of_a_ready_model_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("ready_module")
    module.model = from_torch(network(), mean=0.4)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ready_module", module)
    images = torch.rand(7, 3, 6, 6)
    for given, wanted in (
        (export(tmp_path / "any.pt2", network(), None), network()(images)),
        ("ready_module:model", network()(images - 0.4)),
    ):
        model = load_model(given, IMAGE)
        assert model.outputs is not None
        assert torch.allclose(model.outputs(images), wanted, atol=1e-5)
        assert torch.equal(model.outputs(images).argmax(1), model(images))


@pytest.mark.parametrize("name", ["net", "model"])
def test_a_network_and_a_ready_model_change_their_layout(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, seen = ModuleType("relaid_module"), []

    def look(_: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        seen.append(inputs[0].is_contiguous(memory_format=torch.channels_last))

    net = network()
    net[0].register_forward_pre_hook(look)
    module.net, module.model = net, from_torch(net)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "relaid_module", module)
    model = load_model(f"relaid_module:{name}", IMAGE)
    other = model.in_layout("contiguous")
    assert (model.layout, other.layout) == ("channels_last", "contiguous")
    assert model.classes == other.classes
    seen.clear()
    images = torch.rand(7, 3, 6, 6)
    for each in (model, other, other.in_layout("channels_last")):
        each(images)
    assert seen == [True, False, True]


@pytest.mark.parametrize("place", [6, 8])
def test_broken_directories_of_archives_are_no_models(tmp_path: Path, place: int) -> None:
    """The version that a zip needs, and names that are said to be UTF-8 and are not."""
    file = tmp_path / "net.pt2"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "")
    content = bytearray(file.read_bytes())
    first = content.find(b"PK\1\2")
    content[first + place : first + place + 2] = (
        (99).to_bytes(2, "little") if place == 6 else b"\0\x08"
    )
    content[first + 46] = 0xFF
    file.write_bytes(content)
    with pytest.raises(InputError, match="is neither an exported program nor TorchScript"):
        tb.models.load(str(file), torch.zeros(1, 4, 4))
