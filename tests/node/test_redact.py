"""No secret gets through, no ordinary fact is lost, and every structure stays whole."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.node.redact import MARK, redact, redact_value

SECRET = "hunter2Zx9"  # noqa: S105 - what must go
WITH_A_SECRET = [
    "PASSWORD=%s",
    "export DB_PASSWORD=%s",
    "password: %s",
    "password = %s",
    "password='%s'",
    "PGPASSWORD=%s",
    "psk=%s",
    "TOKEN:%s",
    "SECRET_KEY_BASE=%s",
    "StoragePass=%s",
    "AccountingStoragePass=%s",
    "client-key-data: %s",
    "aws_secret_access_key = %s",
    "ldap_default_authtok = %s",
    "credential=%s",
    "[Interface]\nPrivateKey = %s",
    "Server=db;AccountKey=%s;x=1",
    "username=x,password=%s,uid=0",
    "x-api-key: %s",
    'curl -H "X-Auth-Token: %s" http://x',
    "--password %s",
    "--password=%s",
    "run --token %s --verbose",
    "--secret '%s'",
    'Environment="API_KEY=%s"',
    "Environment=API_KEY=%s",
    "machine h login me password %s",
    '{"password": "%s"}',
    '{"password":\n "%s"}',
    '{"apiKey": ["%s"]}',
    '{"identitytoken": "%s"}',
    '{"name":"HF_TOKEN","value":"%s"}',
    '["--api-key", "%s"]',
    '{"Env": ["A=b","HF_TOKEN=%s","B=c"]}',
    r'{"a":"{\"password\":\"%s\"}"}',
    '"token":"%s',
    "- name: HF_TOKEN\n  value: %s\n- name: x",
    "password: |\n  %s\nother: 1",
    "  secret: >-\n    %s\n  next: 2",
    "<password>%s</password>",
    '<a password="%s"/>',
    "<name>fs.s3a.secret.key</name>\n<value>%s</value>",
    "A=b\0AWS_SECRET_ACCESS_KEY=%s\0C=d",
    "prog\0--password\0%s\0-x",
    "https://user:%s@host/path",
    "redis://:%s@host:6379/0",
    "Authorization: Bearer %s",
    '{"Authorization": "Basic %s"}',
]
MADE_OF_SECRETS = [
    "AKIAABCDEFGHIJKLMNOP",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sk-proj-abcDEF123456789012345678",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r",
    "nvapi-abcdefghijklmnopqrstuvwxyz012345",
    "xoxb-123456789012-abcdefghij",
    "glpat-abcdefghij0123456789",
    "$6$saltsalt$abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ./",
    "$y$j9T$abcdefghijklmnop$qrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRS",
]
ORDINARY = [
    "Tokens/s: 1234",
    "token bucket: 5",
    "tokenizer: meta-llama/Llama-3",
    "TOKENIZERS_PARALLELISM=false",
    '"max_tokens": 4096',
    '"eos_token": "</s>"',
    '"eos_token_id": 2',
    "Total generated tokens: 5120",
    "token_throughput=12.3 tok/s",
    "Time per output token: 12.3 ms",
    "invalid continue token: continue key is not valid",
    "PasswordAuthentication yes",
    "passwordauthentication=no",
    "permitemptypasswords no",
    "PermitRootLogin prohibit-password",
    "AuthenticationMethods publickey,password",
    "hostkeyalgorithms sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "KeyRegenerationInterval 3600",
    "AuthorizedKeysFile .ssh/authorized_keys",
    "HostKey /etc/ssh/ssh_host_rsa_key",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 root@host",
    "password\trequisite\tpam_pwquality.so retry=3",
    "passwd:         files systemd\ngroup: files",
    "%admin ALL=(ALL) NOPASSWD: ALL",
    "NOPASSWD: /usr/bin/x, /bin/y",
    "Defaults passwd_tries=3",
    "Accepted password for root from 192.0.2.4",
    "Password expires\t: never",
    "PASS_MAX_DAYS 99999",
    "Private_Dirty: 12 kB",
    "PrivateTmp=yes",
    "PrivateData=jobs,usage",
    "JobCredentialPrivateKey=/etc/slurm/key",
    "CredType=cred/munge",
    "automountServiceAccountToken: false",
    "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/token",
    "imagePullSecrets:\n- name: regcred",
    "secretName: foo",
    "Secrets: 3",
    "HF_TOKEN=",
    "authorization: enabled",
    "http://host:8080/@scope",
    "ssh://git@host/x",
    "kernel.keys.maxkeys = 200",
    "bypass: yes",
    "root:x:0:0:root:/root:/bin/bash",
    "<nvidia_smi_log><accounting_mode>Disabled</accounting_mode><ecc>N/A</ecc></nvidia_smi_log>",
]
PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAAB3Nz==\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize("text", WITH_A_SECRET)
def test_secrets_go(text: str) -> None:
    clean = redact(text % SECRET)
    assert SECRET not in clean
    assert "redacted" in clean
    assert len(clean) >= len(text) - 2, "nothing but the secret went"
    assert redact(clean) == clean


@pytest.mark.parametrize("secret", MADE_OF_SECRETS)
@pytest.mark.parametrize("text", ["%s", "found %s here", '{"x": "%s"}', "a,%s,b", "<x>%s</x>"])
def test_secrets_of_known_makes_go(text: str, secret: str) -> None:
    clean = redact(text % secret)
    assert secret[-12:] not in clean
    assert redact(clean) == clean


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_facts_stay(text: str) -> None:
    assert redact(text) == text
    assert redact(f"before\n{text}\nafter") == f"before\n{text}\nafter"


def test_private_keys_go_whole_or_cut() -> None:
    begin, end = PRIVATE_KEY.split("\n", 1)[0], PRIVATE_KEY.rsplit("\n", 1)[1]
    assert redact(f"a\n{PRIVATE_KEY}\nb") == f"a\n{begin}{MARK}{end}\nb"
    assert redact(PRIVATE_KEY[:70]) == f"{begin}{MARK}"
    assert redact(PRIVATE_KEY[40:]) == f"{MARK}{end}"
    inside = json.dumps({"key": PRIVATE_KEY, "next": 1})
    assert json.loads(redact(inside)) == {"key": f"{begin}{MARK}{end}", "next": 1}


def test_the_secret_beside_an_aws_key_goes() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - the vendor's own example
    clean = redact(f"AKIAABCDEFGHIJKLMNOP {secret}\n")
    assert secret not in clean
    assert redact(secret) == secret, "forty characters alone are no secret: git commits look like that"


def test_numbers_become_strings_in_json() -> None:
    assert json.loads(redact('{"password": 12345, "port": 1}')) == {"password": MARK, "port": 1}


def test_registry_logins_go() -> None:
    login = '{"auths": {"registry.example": {"auth": "%s"}}}'
    assert redact(login % "dXNlcjpwYXNz") == login % MARK
    assert redact('{"auth": "required"}') == '{"auth": "required"}'


def test_variables_by_name() -> None:
    assert redact_value("HF_TOKEN", "anything at all") == MARK
    assert redact_value("HF_TOKEN", "") == ""
    assert redact_value("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/x") == "/var/run/x"
    assert redact_value("URL", "http://u:pw@h/") == f"http://u:{MARK}@h/"


SECRET_NAMES = st.sampled_from(["password", "api_key", "apiKey", "token", "HF_TOKEN", "Secret"])
NAMES = SECRET_NAMES | st.sampled_from(["name", "port", "tokens", "env"])
TEXTS = st.text(max_size=20) | st.sampled_from(
    ['--password "x"', "A_TOKEN=b\\", "http://u:p@h", 'token: \\"', PRIVATE_KEY, 'password="', "eyJ"]
)
FRAGMENTS = r"(?:[\"'\\=: \n\0<>/@$-]|token|password|://|Bearer |-----BEGIN PRIVATE KEY-----){0,40}"
XML_TEXTS = st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=20,
)


class Pairs(list[Any]):
    """An object whose names may repeat once they are redacted."""


def shape(text: str) -> Any:
    """A JSON document without its names, strings and numbers."""

    def without(value: Any) -> Any:
        if isinstance(value, Pairs):
            return {"of": [without(inner) for _, inner in value]}
        return [without(inner) for inner in value] if isinstance(value, list) else None

    return without(json.loads(text, object_pairs_hook=Pairs))


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_json_stays_json(value: Any, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert shape(redact(text)) == shape(text)
    lines = f"{json.dumps(value)}\n{json.dumps(value)}\n"
    assert list(map(shape, redact(lines).splitlines())) == list(map(shape, lines.splitlines()))


@given(st.dictionaries(NAMES, XML_TEXTS, max_size=5))
def test_xml_stays_xml(values: dict[str, str]) -> None:
    root = ET.Element("root")
    for name, value in values.items():
        ET.SubElement(root, name, {name: value}).text = value
    again = ET.fromstring(redact(ET.tostring(root, encoding="unicode")))  # noqa: S314 - made here
    assert [child.tag for child in again] == list(values)


@given(SECRET_NAMES, st.from_regex(r"[A-Za-z0-9+_]{9,30}", fullmatch=True))
def test_named_secrets_go_from_json(name: str, secret: str) -> None:
    if redact_value(name, secret) == secret:
        return  # a word such as "configured"
    assert secret not in redact(json.dumps({"before": 1, name: secret, "after": [2]})).replace(name, "")


@given(st.text() | st.from_regex(FRAGMENTS, fullmatch=True))
def test_any_text_is_survived_and_clean_text_stays(text: str) -> None:
    assert redact(redact(redact(text))) == redact(redact(text))


@pytest.mark.parametrize(
    "unit",
    [
        "a", "token", "token=", '"password":"', "password='\n", "://a:", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-",
        "$1$", "--password ", "password: |\n  a\n", "AKIAAAAAAAAAAAAAAAAA ", "bearer ", "\\", 'password\\"', "secret\0",
        "<token ", "token\n value: ", '"token":["a",', "authorization:", "login password ", "token  ",
    ],
)  # fmt: skip
def test_time_is_linear(unit: str) -> None:
    def took(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    took(1000)
    assert took(300_000) < 1.0


def test_ordinary_output_costs_next_to_nothing() -> None:
    text = "0000:3b:00.0 3D controller: Device 10de:2330 (rev a1)\n" * 20_000
    began = time.process_time()
    assert redact(text) == text
    assert time.process_time() - began < 0.1
