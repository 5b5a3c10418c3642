//! What mounting needs of this machine.

use std::fs::File;

/// Whether this machine lets us mount; says so loudly if not.
pub fn can_mount() -> bool {
    let root = std::fs::read_to_string("/proc/self/status").unwrap();
    let root = root.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    let reason = match () {
        () if !root => "this is not root",
        () if File::options().read(true).write(true).open("/dev/fuse").is_err() => {
            "there is no /dev/fuse"
        }
        () if File::options().read(true).write(true).open("/dev/loop-control").is_err() => {
            "there are no loop devices"
        }
        () => return true,
    };
    eprintln!("SKIPPED: nothing can be mounted here: {reason}");
    false
}
