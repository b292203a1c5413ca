"""Accounts, sudo, sshd and sign-on of an invented host."""

from __future__ import annotations

from assay.lab.parts import Parts
from assay.lab.tree import TreeError
from assay.lab.virtual import Output, VirtualHost

_ACCOUNTS = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
systemd-network:x:998:998:systemd Network Management:/:/usr/sbin/nologin
messagebus:x:100:102::/nonexistent:/usr/sbin/nologin
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
_chrony:x:103:104:Chrony daemon,,,:/var/lib/chrony:/usr/sbin/nologin
munge:x:104:105::/nonexistent:/usr/sbin/nologin
slurm:x:64030:64030:SLURM job scheduler:/var/lib/slurm:/usr/sbin/nologin
ops:x:1000:1000:Operations:/home/ops:/bin/bash
"""
_GROUP = """\
root:x:0:
adm:x:4:ops
sudo:x:27:ops
systemd-journal:x:999:
video:x:44:
render:x:993:
docker:x:988:ops
slurm:x:64030:
ops:x:1000:
"""
_SUDOERS = """\
Defaults\tenv_reset
Defaults\tmail_badpass
Defaults\tsecure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
root\tALL=(ALL:ALL) ALL
%sudo\tALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
"""
_SSHD = """\
Include /etc/ssh/sshd_config.d/*.conf
UsePAM yes
KbdInteractiveAuthentication no
X11Forwarding no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""
_EFFECTIVE = """\
port 22
addressfamily any
listenaddress 0.0.0.0:22
usepam yes
logingracetime 120
maxauthtries 6
permitrootlogin {root}
pubkeyauthentication yes
passwordauthentication {passwords}
kbdinteractiveauthentication no
permitemptypasswords no
authenticationmethods any
trustedusercakeys none
authorizedkeyscommand none
ciphers chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes256-ctr
macs umac-128-etm@openssh.com,hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com
kexalgorithms mlkem768x25519-sha256,sntrup761x25519-sha512,curve25519-sha256
hostkeyalgorithms ssh-ed25519,rsa-sha2-512,rsa-sha2-256
"""


def accounts(*, sudo_for_all: bool = False, directory: bool = True) -> Parts:
    """Local accounts, sudoers, sshd; `directory` = people come from LDAP through sssd."""
    parts = Parts()
    parts.files["/etc/passwd"], parts.files["/etc/group"] = _ACCOUNTS, _GROUP
    source = "files systemd sss" if directory else "files systemd"
    parts.files["/etc/nsswitch.conf"] = (
        f"passwd:         {source}\ngroup:          {source}\nshadow:         files\nhosts:          files dns\n"
    )
    parts.modes["/usr/bin/sudo"] = "f 4755 0 0 0:0"
    parts.files["/etc/sudoers"] = _SUDOERS
    rule = "ALL ALL=(ALL) NOPASSWD: ALL\n" if sudo_for_all else "%admins ALL=(ALL) ALL\n"
    parts.files["/etc/sudoers.d/90-site"] = rule
    parts.modes |= {
        "/etc/sudoers": "f 0440 0 0 0:0",
        "/etc/sudoers.d/90-site": "f 0440 0 0 0:0",
        "/etc/sudoers.d": "d 0750 0 0 0:0",
    }
    _sshd(parts, loose=sudo_for_all)
    if directory:
        parts.files["/etc/sssd/sssd.conf"] = (
            "[sssd]\ndomains = cluster\n[domain/cluster]\nid_provider = ldap\nauth_provider = krb5\naccess_provider "
            "= ldap\n"
        )
        parts.modes |= {"/etc/sssd/sssd.conf": "f 0600 0 0 0:0", "/etc/sssd": "d 0711 0 0 0:0"}
        parts.files["/run/sssd.pid"] = "1412\n"
        parts.files["/etc/krb5.conf"] = "[libdefaults]\n\tdefault_realm = CLUSTER.TEST\n"
    parts.commands["/usr/bin/grep"] = _grep
    for name in ("common-auth", "login", "sshd"):
        sss = (
            "auth\t[success=1 default=ignore]\tpam_sss.so use_first_pass\n"
            if directory and name == "common-auth"
            else ""
        )
        parts.files[f"/etc/pam.d/{name}"] = (
            f"auth\t[success=2 default=ignore]\tpam_unix.so nullok\n{sss}auth\trequisite\tpam_deny.so\n"
        )
    for tool in ("useradd", "usermod", "userdel", "groupadd", "groupdel"):
        parts.modes[f"/usr/sbin/{tool}"] = "f 0755 0 0 0:0"
    parts.modes["/usr/bin/gpasswd"] = "f 4755 0 0 0:0"
    return parts


def _sshd(parts: Parts, *, loose: bool) -> None:
    parts.files["/etc/ssh/sshd_config"] = _SSHD
    parts.files["/etc/ssh/sshd_config.d/50-cloud-init.conf"] = f"PasswordAuthentication {'yes' if loose else 'no'}\n"
    parts.modes["/etc/ssh/sshd_config.d/50-cloud-init.conf"] = "f 0600 0 0 0:0"
    words = {"root": "yes" if loose else "without-password", "passwords": "yes" if loose else "no"}
    parts.program("/usr/sbin/sshd", {"-T": _EFFECTIVE.format(**words)})


def _grep(argv: tuple[str, ...], host: VirtualHost) -> Output:
    """`grep -rhsE` for the providers of sssd, the one use the probes make of it."""
    if argv[1] != "-rhsE" or "_provider" not in argv[2]:
        raise LookupError(f"{host.name}: no answer to {' '.join(argv)}")
    try:
        text = host.tree.content("/etc/sssd/sssd.conf")
    except TreeError:
        return Output(rc=2)
    return Output("".join(f"{line}\n" for line in text.splitlines() if "_provider" in line))
