"""Secrets are replaced where they are read, so that none leaves the node, and ordinary facts stay as they are.

Two kinds are found: values whose name says that they are secret (PASSWORD=..., "apiKey": "...", --token ...), and
texts that look like nothing else (private keys, tokens of known makes, passwords in URLs). Every rule names spans of
the text; structure around them (quotes, tags, separators) is kept, so JSON stays JSON and XML stays XML. All scans
are linear.
"""

import bisect
import json
import re

MARK = "<redacted>"
XML_MARK = "&lt;redacted&gt;"
_I = re.IGNORECASE

# ---- names ------------------------------------------------------------------------------------------------

_NEEDLES = ("token", "secret", "pass", "key", "credential", "private", "bindpw", "authtok", "psk")
_HIT = re.compile(
    r"token|secret|passw|passphrase|(?<=[a-z_.-])pass(?![a-z])|credential|private|bind_?pw|authtok|(?<![a-z])psk(?![a-z])"
    r"|(?:api|access|account|auth|signing|encryption|preshared|license|master|storage|client)[_-]?key",
    _I,
)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_NAME_REACH = 64
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STRICT = re.compile(r"(?<!no)passw|passphrase|secret(?!s(?:_|$))")  # even a number is a secret there
_STRONG = re.compile(
    r"(?<!no)passw|passphrase|_pass$|secret(?!s(?:_|$))|(?<!per_)token(?!s|iz|is)|credential(?!s(?:_|$))|bind_?pw|auth_?tok(?!en)|(?:^|_)psk(?:_|$)"
    r"|(?:api|access|account|auth|signing|encryption|preshared|license|master|storage|private|client)_?key"
    r"(?!s?_(?:file|cert|usage|size|type))"
)
_WEAK = re.compile(r"secrets|tokens|credentials|(?:^|_)private$")
_ORDINARY_ENDS = frozenset((
    "age", "algorithm", "at", "audience", "authentication", "bucket", "cache", "class", "count", "counter",
    "days", "dir", "directory", "enabled", "endpoint", "endpoints", "env", "exists", "expiration", "expires",
    "expiry", "file", "files", "format", "helper", "interval", "issuer", "len", "length", "lifetime", "limit",
    "logprobs", "max", "min", "mode", "name", "names", "path", "paths", "period", "plugin", "policy", "probs",
    "process", "prompt", "provider", "quality", "rate", "ratio", "ref", "required", "size", "source", "speed",
    "store", "throughput", "timeout", "tries", "ttl", "type", "types", "uri", "url", "usage", "var", "version",
    "words",
))  # fmt: skip

# ---- values -----------------------------------------------------------------------------------------------

_LITERALS = frozenset((
    "(null)", "*", "-", ">", ">-", "[", "[]", "\\", "absent", "allow", "always", "configured", "default", "deny",
    "disabled", "enabled", "expired", "false", "found", "include", "int", "invalid", "missing", "n/a", "na",
    "never", "nil", "no", "none", "null", "object", "off", "on", "optional", "present", "prohibit-password",
    "redacted", "required", "requisite", "set", "str", "string", "sufficient", "text", "true", "unknown",
    "unset", "valid", "without-password", "yes", "{", "{}", "|", "|-",
))  # fmt: skip
_HARMLESS = re.compile(
    r"<[^<>]*>|&lt;[^<>&]*&gt;|\$\{?\w+\}?|\$\([^()]*\)|\{\{.*\}\}|%\(?\w+\)?s?|\*+|x{4,}|\[[A-Z]+\]|[\[{(].*"
    r"|(?:file:|env:|~|\.{1,2})?/?(?:etc|var|run|home|root|usr|opt|tmp|mnt|proc|sys|dev|srv|data|secrets|lib|boot)/[\w.@%+/-]*"
    r"|(?:~|\.{1,2})/[\w.@%+/-]*",
    re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?(?:e[-+]?[0-9]+)?(?:\s?[%a-zA-Z/]{1,8})?(?:\s.*)?", re.DOTALL)
_PROSE = re.compile(r"[a-z]{1,11}")
_PASSWD = re.compile(  # nsswitch.conf and sudoers use the word otherwise
    r"(?:[A-Z_]+:\s*)*(?:!?/|ALL\b).*|(?:(?:files|compat|sss|systemd|ldap|nis|nisplus|winbind|db|altfiles|extrausers|cache|\[[^\]]*\])\s*)+"
)
_LOOKS_SECRET = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[^\s/,]{12,}")

_QUOTED_NAME = r"(?P<bs>\\{0,8})(?P<q>[\"'])"
_AFTER = re.compile(
    _QUOTED_NAME + r"[ \t]*(?:=>|:=|[:=])\s{0,64}"  # "name": value
    r"|(?P<pair>\\{0,8}[\"']\s{0,64},\s{0,64}\\{0,8}[\"']value\\{0,8}[\"']\s{0,8}:\s{0,8})"  # "NAME", "value": value
    r"|(?P<below>[\"']?[ \t]*\n[ \t]*value:[ \t]*)"  # - name: NAME\n  value: value
    r"|(?P<tag>(?:</name>\s{0,64}<value|\s[^<>]{0,80})?>)"  # <name>value<
    r"|[ \t]{0,64}(?P<sep>=>|:=|=(?!=)|:(?![:/]))[ \t]{0,64}"
)
_WORD_AFTER = re.compile(r"(?P<listed>\\{0,8}[\"']\s{0,64},\s{0,64})|[ \t]+|\0")
_OPENING = re.compile(r"(\\{0,8})([\"'])")
_CLOSED = {quote: re.compile(r"(?:[^%s\\\n\r]|\\.)*" % quote) for quote in "\"'"}
_BARE = re.compile(r"[^\s\0\"'<>,;&|)\]}\\]+")
_WORD = re.compile(r"[^\s\0<>]+")
_LINE = re.compile(r"[^\n\r\0]*[^\n\r\0\s]")
_RECORD = re.compile(r"[^\0]+")
_TAG_TEXT = re.compile(r"[^<>]+")
_LINE_LEAD = re.compile(r"[ \t]*(?:-[ \t]+|export[ \t]+|declare -x[ \t]+|set[ \t]+)?")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*[ \t]*\n")
_STRING = re.compile(r"[\s,]*\"((?:[^\"\\]|\\.)*)\"")

# ---- texts that are secret whatever their name ----------------------------------------------------------------

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"((?:[A-Za-z0-9+/=\s:,.()_]+|-(?!----END)|\\+[nrt])*)"
)
_AUTHORIZATION = (
    r"authorization\\{0,8}[\"']?[ \t]*[:=][ \t]*\\{0,8}[\"']?"
    r"(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256)[ \t]+([^\"'\n\r\0\\<]+)"
)
_PATTERNS = tuple(
    (needle, re.compile(pattern, flags))
    for needle, pattern, flags in (
        ("private key", _PRIVATE_KEY, 0),
        ("private key", r"\A([A-Za-z0-9+/=\s]+)-----END [A-Z0-9 ]{0,40}PRIVATE KEY", 0),
        ("://", r"://[^\s/:@\"'<>\\]{0,256}:([^\s/\"'<>\\]+)@", 0),
        ("bearer", r"\bbearer[ \t]+(?=[^\s\"']{0,64}[0-9])([A-Za-z0-9._~+/=-]{16,})", _I),
        ("authorization", _AUTHORIZATION, _I),
        ("password", r"\blogin\s+\S{1,256}\s+password\s+([^\s\"'<>\\]+)", 0),
        ("akia", r"\b(AKIA[A-Z0-9]{16})\b", 0),
        ("asia", r"\b(ASIA[A-Z0-9]{16})\b", 0),
        ("gh", r"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{20,})", 0),
        ("github_pat_", r"(?<![A-Za-z0-9])(github_pat_\w{20,})", 0),
        ("hf_", r"(?<![A-Za-z0-9])(hf_[A-Za-z0-9]{20,})", 0),
        ("sk-", r"(?<![A-Za-z0-9-])(sk-(?!ssh-|ecdsa-)(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,})", 0),
        ("eyj", r"(?<![A-Za-z0-9])(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)", 0),
        ("nvapi-", r"(nvapi-[A-Za-z0-9_-]{20,})", 0),
        ("xox", r"(?<![A-Za-z0-9])(xox[abeprs]-[A-Za-z0-9-]{10,})", 0),
        ("glpat-", r"(glpat-[A-Za-z0-9_-]{16,})", 0),
        ("dckr_pat_", r"(dckr_pat_[A-Za-z0-9_-]{16,})", 0),
        ("aiza", r"(?<![A-Za-z0-9])(AIza[A-Za-z0-9_-]{35})", 0),
        ("hvs.", r"(?<![A-Za-z0-9])(hvs\.[A-Za-z0-9_-]{20,})", 0),
        ("hooks.slack.com", r"hooks\.slack\.com/services/([A-Za-z0-9/_-]+)", 0),
        ("sig", r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=([^&\s\"'<>\\]+)", _I),
        (
            "$",
            r"\$(?:1|2[abxy]|5|6|7|y|gy)\$((?:[./A-Za-z0-9=,]{1,64}\$){0,3}[./A-Za-z0-9]{16,})",
            0,
        ),
        ('"auths"', r"\"auth\"\s{0,8}:\s{0,8}\"([A-Za-z0-9+/=_-]{4,})\"", 0),
    )
)
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_AWS_REACH = 256
_DECODER = json.JSONDecoder()
_JSON_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_ANGLE = re.compile(r"[<>]")
_ATTRIBUTE_END = re.compile(r"[<>\"']")
_XML = re.compile(r"\s{0,4096}<[?!A-Za-z]")


def redact(text: str) -> str:
    """`text` without the secrets it holds."""
    low = text.lower()
    spans = []
    if any(needle in low for needle in _NEEDLES):
        spans += _named(text)
    for needle, pattern in _PATTERNS:
        if needle in low:
            spans += [_span(match, 1) for match in pattern.finditer(text) if match.group(1).strip()]
    if "akia" in low or "asia" in low:
        spans += _aws_secrets(text)
    if not spans:
        return text
    if _is_xml(text):
        return _without(text, _inside_tokens(text, spans), XML_MARK)
    return _without(text, _inside_strings(text, spans) if _is_json(text) else spans, MARK)


def redact_value(name: str, value: str) -> str:
    """The value of a variable, redacted by its name and by itself."""
    return MARK if value and _is_secret(name, value) else redact(value)


def _without(text: str, spans: list, mark: str) -> str:
    pieces: "list[str]" = []
    done = 0
    for start, end, quoted in sorted(spans):
        if end <= done:
            continue
        if start >= done:
            pieces += [text[done:start], '"%s"' % mark if quoted else mark]
        done = end
    return "".join(pieces) + text[done:]


def _is_xml(text: str) -> bool:
    return bool(_XML.match(text) and ("</" in text or "/>" in text))


def _inside_tokens(text: str, spans: list) -> list:
    """The spans cut where the XML text or attribute they begin in ends, so that the document stays one."""
    found: "list[tuple]" = []
    tags = [match.start() for match in _ANGLE.finditer(text)]
    for start, end, _ in spans:
        index = bisect.bisect_right(tags, start) - 1
        in_tag = index >= 0 and text[tags[index]] == "<"
        stop = (_ATTRIBUTE_END if in_tag else _ANGLE).search(text, start, end)
        stop_at = stop.start() if stop else end
        found += [(start, stop_at, False)] if stop_at > start else []
    return found


def _is_json(text: str) -> bool:
    """True for one or more whole JSON documents."""
    at, end = len(text) - len(text.lstrip()), len(text.rstrip())
    try:
        while at < end:
            _, at = _DECODER.raw_decode(text, at)
            while at < end and text[at].isspace():
                at += 1
    except (ValueError, RecursionError):
        return False
    return True


def _inside_strings(text: str, spans: list) -> list:
    """The spans cut to the JSON strings they begin in, escapes whole, so that the document stays one."""
    strings = [match.span() for match in _JSON_STRING.finditer(text)]
    starts = [start for start, _ in strings]
    found: "list[tuple]" = []
    for span in spans:
        index = bisect.bisect_right(starts, span[0]) - 1
        if index >= 0 and span[0] < strings[index][1]:
            low, high = strings[index][0] + 1, strings[index][1] - 1
            start, stop = _escape_at(text, span[0], low)[0], _escape_at(text, min(span[1], high), low)[1]
            found += [(start, stop, False)] if stop > start else []
        elif span[2]:
            found.append(span)
    return found


def _escape_at(text: str, at: int, low: int) -> tuple:
    """(start, end) of the JSON escape that `at` lies inside, or (at, at)."""
    for start in range(at - 1, max(at - 6, low - 1), -1):
        if text[start] == "\\":
            run = start
            while run >= low and text[run] == "\\":
                run -= 1
            length = 6 if text[start + 1] == "u" else 2
            if (start - run) % 2 and at < start + length:
                return start, start + length
    return at, at


def _aws_secrets(text: str) -> list:
    found: "list[tuple]" = []
    for key in re.finditer(r"\bA(?:KI|SI)A[A-Z0-9]{16}\b", text):
        near = max(key.start() - _AWS_REACH, 0)
        found += [_span(match, 1) for match in _AWS_SECRET.finditer(text, near, key.end() + _AWS_REACH)]
    return found


# ---- named values -----------------------------------------------------------------------------------------


def _named(text: str) -> list:
    """Spans (start, end, needs quotes) of values whose names say that they are secret."""
    found: "list[tuple]" = []
    at = 0
    while True:
        hit = _HIT.search(text, at)
        if not hit:
            return found
        start, end = hit.span()
        floor = max(at, start - _NAME_REACH)
        while start > floor and text[start - 1] in _NAME_CHARS:
            start -= 1
        limit = min(len(text), end + _NAME_REACH)
        while end < limit and text[end] in _NAME_CHARS:
            end += 1
        at = end
        name = text[start:end]
        for low, high, quoted in _values(text, start, end):
            if _is_secret(name, text[low:high]):
                found.append((low, high, quoted))
                at = max(at, high)


def _is_secret(name: str, value: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    value = value.strip()
    if not words or not value or value.lower() in _LITERALS or _HARMLESS.fullmatch(value):
        return False
    joined = "_".join(words)
    if words[-1] in _ORDINARY_ENDS or (name.lower() == "passwd" and _PASSWD.fullmatch(value)):
        return False
    if _STRICT.search(joined):
        return True
    if _NUMBER.fullmatch(value):
        return False
    return bool(_STRONG.search(joined) or (_WEAK.search(joined) and _LOOKS_SECRET.fullmatch(value)))


def _values(text: str, start: int, end: int) -> list:
    """Where the value of the name text[start:end] lies: usually one span, none when nothing is assigned."""
    after = _AFTER.match(text, end)
    option = text[start] == "-" or text[start - 1 : start] == "-"
    if after and after.group("tag"):
        found = _match(_TAG_TEXT, text, after.end()) if start and text[start - 1] in "<>" else []
        closed = found and (text.startswith("</", found[0][1]) or (found[0][1] == len(text) and _XML.match(text)))
        return found if closed else []
    if after and after.group("sep"):
        return _assigned(text, start, after)
    if after and not (option and after.group("q") and not after.group("pair")):
        return _after_quoted_name(text, start, after)
    word = _WORD_AFTER.match(text, end) if option else None
    if word and text[word.end() : word.end() + 1] not in ("-", ""):
        return _quoted(text, word.end()) or _match(_RECORD if word.group() == "\0" else _BARE, text, word.end())
    return []


def _after_quoted_name(text: str, start: int, after) -> list:
    """A value in JSON or YAML: a string, a list of strings, or a number that then needs quotes."""
    at = after.end()
    if text[at : at + 1] == "[":
        return _strings(text, at + 1)
    found = _quoted(text, at)
    if found:
        return found
    if after.group("below") is not None:
        return _match(_LINE, text, at)
    if start and text[start - 1] != after.group("q"):
        return []
    number = not after.group("bs") and after.group("q") == '"'
    return [(low, high, number) for low, high, _ in _match(_BARE, text, at)]


def _strings(text: str, at: int) -> list:
    found: "list[tuple]" = []
    while True:
        match = _STRING.match(text, at)
        if not match:
            return found
        found.append(_span(match, 1))
        at = match.end()


def _assigned(text: str, start: int, after) -> list:
    """A value in NAME=value or NAME: value."""
    at = after.end()
    found = _quoted(text, at)
    if found:
        return found
    before = text[start - 1 : start]
    if before and before in "\"'":  # "NAME=value"
        backslashes = len(text[: start - 1][-8:]) - len(text[: start - 1][-8:].rstrip("\\")) if start > 1 else 0
        found = _until(text, at, "\\" * backslashes, before)
        newline = text.find("\\n", at, found[0][1]) if found else -1
        return found if newline < 0 else [(at, newline, False)]
    if "\0" in text[max(start - 1, 0) : at + 4096] and before in ("", "\0"):
        return _match(_RECORD, text, at)
    line = max(text.rfind("\n", max(start - 256, 0), start), text.rfind("\r", max(start - 256, 0), start)) + 1
    lead = _LINE_LEAD.match(text, line)
    if lead and lead.end() == start and (line > 0 or start < 256):
        block = _BLOCK_SCALAR.match(text, at)
        if block:
            return _block(text, block.end(), start - line)
        spaced = after.group("sep") != "=" or text[after.start()] in " \t"
        return _match(_LINE if spaced else _WORD, text, at)
    found = _match(_BARE, text, at)
    prose = after.group("sep") == ":" and found and _PROSE.fullmatch(text[at : found[0][1]])
    return [] if prose and not _STRICT.search(text[start : after.start()].lower()) else found


def _block(text: str, at: int, indent: int) -> list:
    """The lines of a YAML block: those indented deeper than their name."""
    end = at
    while end < len(text):
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        line = text[end:stop]
        if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
            break
        end = stop + 1
    end = min(end, len(text))
    body = text[at:end]
    start = at + len(body) - len(body.lstrip())
    return [(start, at + len(body.rstrip()), False)] if body.strip() else []


def _quoted(text: str, at: int) -> list:
    opening = _OPENING.match(text, at)
    return _until(text, opening.end(), opening.group(1), opening.group(2)) if opening else []


def _until(text: str, at: int, backslashes: str, quote: str) -> list:
    """From `at` to the closing quote, or to the end of the line when there is none."""
    if not backslashes:
        return _match(_CLOSED[quote], text, at)
    line = _LINE.match(text, at)
    if not line:
        return []
    end = text.find(backslashes + quote, at, line.end())
    return [(at, line.end() if end < 0 else end, False)]


def _span(match, group: int = 0) -> tuple:
    return match.start(group), match.end(group), False


def _match(pattern, text: str, at: int) -> list:
    match = pattern.match(text, at)
    return [_span(match)] if match else []
