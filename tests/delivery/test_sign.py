"""Promises of signatures: a receiver that knows a key can check them, keys rotate, and no key leaks."""

import base64
from pathlib import Path

import pytest

from penstock.delivery.sign import read_keys, signature_lines
from penstock.errors import Misconfigured

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def keys_in(path: Path, text: str, mode: int = 0o600) -> tuple[bytes, ...]:
    path.write_text(text)
    path.chmod(mode)
    return read_keys(path)


def test_the_example_of_the_standard(tmp_path: Path) -> None:
    """Kept promise: what the specification of Standard Webhooks gives as an example comes out."""
    keys = keys_in(tmp_path / "k", KEY)
    lines = [b"ce-id:msg_p5jXN8AQM9LWM0D4loKWxJek"]
    assert signature_lines(keys, lines, b'{"test": 2432232314}', 1614265330.7) == [
        b"webhook-id:msg_p5jXN8AQM9LWM0D4loKWxJek",
        b"webhook-timestamp:1614265330",
        b"webhook-signature:v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ]


def test_two_keys_sign_side_by_side(tmp_path: Path) -> None:
    """Kept promise: while keys rotate a receiver may know the old one or the new one."""
    other = base64.b64encode(bytes(range(24))).decode()
    keys = keys_in(tmp_path / "k", f"{KEY}\n{other}\n")
    *_, signature = signature_lines(keys, [b"ce-id:1"], b"{}", 1.0)
    assert len(signature.removeprefix(b"webhook-signature:").split(b" ")) == 2


def test_a_batch_has_an_id_too(tmp_path: Path) -> None:
    """Kept promise: the same batch sent again has the same id, another batch another one."""
    keys = keys_in(tmp_path / "k", KEY)
    first, again, other = (signature_lines(keys, [], body, 1.0)[0] for body in (b"[1]", b"[1]", b"[2]"))
    assert first == again != other


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (KEY, 0o644, "chmod 600"),
        ("whsec_???", 0o600, "base64"),
        ("", 0o600, "no key"),
        ("c2hvcnQ=", 0o600, "too short"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_without_saying_it(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    """Kept promise: the reason names the file and the remedy, never what is in it."""
    with pytest.raises(Misconfigured, match=reason) as refused:
        keys_in(tmp_path / "stripe", text, mode)
    assert "stripe" in refused.value.message
    assert not text or text not in refused.value.message


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    """Kept promise: it is said which."""
    with pytest.raises(Misconfigured, match="nowhere cannot be read"):
        read_keys(tmp_path / "nowhere")
