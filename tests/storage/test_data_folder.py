"""The data folder is checked once, at start, and says plainly what is wrong with it."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

import storage.data_folder
from storage.data_folder import default_data_folder, network_share, open_data_folder
from storage.errors import StorageError

MOUNTS = """\
overlay / overlay rw,relatime 0 0
/dev/sda1 /mnt/disk ext4 rw 0 0
nas:/export /mnt/nas nfs4 rw,vers=4.2 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
me@box: /home/me/box fuse.sshfs rw 0 0
/dev/sdb1 /mnt/nas/local ext4 rw 0 0
nas:/v3 /srv/hidden nfs rw 0 0
/dev/sdc1 /srv/hidden xfs rw 0 0
s3 /mnt/s3 fuse.s3fs rw 0 0
portal /run/user/1000/doc fuse.portal rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", None),
        ("/mnt/disk/data", None),
        ("/mnt/nas", "nfs4"),
        ("/mnt/nas/goodput/data", "nfs4"),
        ("/mnt/nas/local/data", None),
        ("/mnt/nasty", None),
        ("/mnt/my share/data", "cifs"),
        ("/home/me/box/x", "fuse.sshfs"),
        ("/srv/hidden/x", None),
        ("/mnt/s3/x", "fuse.s3fs"),
        ("/run/user/1000/doc/x", None),
    ],
)
def test_network_shares_are_told_from_the_mount_table(path: str, kind: str | None) -> None:
    """The deepest mount decides, the later of two at one place; escaped spaces are understood."""
    assert network_share(MOUNTS, Path(path)) == kind


def test_an_empty_mount_table_knows_no_share() -> None:
    """Where there is no mount table nothing is refused."""
    assert network_share("", Path("/data")) is None


def test_the_folder_is_made_with_its_parts(tmp_path: Path) -> None:
    """A new folder gets queue/ and sweeps/, keeps what is in it, and has no trial file left."""
    path = open_data_folder(tmp_path / "a" / "data")
    assert path == tmp_path / "a" / "data"
    (path / "sweeps" / "x").mkdir()
    assert open_data_folder(path) == path
    assert sorted(p.name for p in path.iterdir()) == ["queue", "sweeps"]
    assert (path / "sweeps" / "x").is_dir()


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder stays the same when the process changes directory later."""
    monkeypatch.chdir(tmp_path)
    assert open_data_folder(Path("data")) == tmp_path / "data"


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    """One sentence with the path, the reason and the mend."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(StorageError, match=r"a file stands where a folder must be.*GOODPUT_DATA") as e:
        open_data_folder(tmp_path / "f" / "data")
    assert str(tmp_path / "f") in str(e.value)


def test_a_read_only_place_is_refused() -> None:
    """The kernel's own file system takes no folder, not even from root."""
    with pytest.raises(StorageError, match="/proc/goodput: cannot be written"):
        open_data_folder(Path("/proc/goodput"))


def test_a_nearly_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 50 MB free the folder is refused with both numbers; at 50 MB it is taken."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 49_999_999))
    with pytest.raises(StorageError, match="only 49 MB free, a sweep needs at least 50 MB"):
        open_data_folder(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 50_000_000))
    assert open_data_folder(tmp_path) == tmp_path


def test_a_network_share_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on a share names the kind of share and the mend."""
    monkeypatch.setattr(storage.data_folder, "_mounts", lambda: f"nas:/x {tmp_path.resolve()} nfs4 rw 0 0\n")
    with pytest.raises(StorageError, match=r"network share \(nfs4\).*local disk"):
        open_data_folder(tmp_path / "data")


def test_the_default_folder_is_the_environment_s_or_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """GOODPUT_DATA decides; unset or empty it is ./data."""
    monkeypatch.setenv("GOODPUT_DATA", "/srv/goodput")
    assert default_data_folder() == Path("/srv/goodput")
    monkeypatch.setenv("GOODPUT_DATA", "")
    assert default_data_folder() == Path("data")
    monkeypatch.delenv("GOODPUT_DATA")
    assert default_data_folder() == Path("data")
