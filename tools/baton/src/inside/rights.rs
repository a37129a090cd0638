//! The rights with which a command attaches.
//!
//! Root may look into everybody's programs. But where requests lie is said by the program's own
//! environment. So root takes the user's rights while it attaches: it can make and open nothing
//! there that the user could not.

use nix::unistd::{Gid, Uid, geteuid, getgroups, setegid, seteuid, setgroups};
use std::fs;

/// Root's own rights, to be taken back.
pub(super) struct OwnRights {
    groups: Vec<Gid>,
}

/// Takes the rights of the user whose program `pid` is, if the caller is root. They are given back
/// when the result is dropped.
pub(super) fn of_the_user_of(pid: u32) -> Result<Option<OwnRights>, String> {
    let ids = |field: &str| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    // If there is no such process, attaching says so.
    let (Some(user), Some(group)) = (ids("Uid:"), ids("Gid:")) else {
        return Ok(None);
    };
    if !geteuid().is_root() || user == 0 {
        return Ok(None);
    }
    let failed = |error| format!("cannot take the rights of the user {user}: {error}");
    let groups = getgroups().map_err(failed)?;
    let own = OwnRights { groups };
    setgroups(&[]).map_err(failed)?;
    setegid(Gid::from_raw(group)).map_err(failed)?;
    seteuid(Uid::from_raw(user)).map_err(failed)?;
    Ok(Some(own))
}

impl Drop for OwnRights {
    fn drop(&mut self) {
        // The saved rights are root's, so these succeed. If not, the command has fewer rights.
        let _ = seteuid(Uid::from_raw(0));
        let _ = setegid(Gid::from_raw(0));
        let _ = setgroups(&self.groups);
    }
}
