//! As whom a command runs: the user who called sudo, or the one that the command line names.

use crate::base::failure::{Failure, status};
use crate::base::own_file;
use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The user of a command, where that is not the user of `prof`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunAs {
    /// User id.
    pub(super) uid: u32,
    /// Group id.
    pub(super) gid: u32,
    /// All groups.
    pub(super) groups: Vec<u32>,
    /// Name, or the id of a user without an account. Foreign text.
    pub(crate) name: String,
    /// Variables of the environment that name the user: HOME, SHELL, USER, LOGNAME.
    variables: Vec<(&'static str, OsString)>,
}

impl RunAs {
    /// The user that is `named`, by name or number; else the one who called sudo. `None` when that is the user of this process.
    ///
    /// # Errors
    ///
    /// When there is no such user, or when this process may not run a command as another one: only root may.
    pub(crate) fn find(named: Option<&str>) -> Result<Option<RunAs>, Failure> {
        let own = rustix::process::getuid();
        let user = match (named, own_file::invoking_user()) {
            (Some(name), _) => RunAs::named(name)?,
            (None, Some((uid, gid))) => RunAs::of_ids(uid, gid),
            (None, None) => return Ok(None),
        };
        if user.uid == own.as_raw() {
            return Ok(None);
        }
        if !own.is_root() {
            let message = format!("cannot run the command as `{}`: only root can", user.name);
            return Err(Failure::new(status::NOT_PERMITTED, message).hint("now: the same command with sudo"));
        }
        Ok(Some(user))
    }

    fn named(name: &str) -> Result<RunAs, Failure> {
        let by_name = User::from_name(name).ok().flatten();
        // The kernel takes the largest number for "no change", which would be root.
        let id = name.parse().ok().filter(|id| *id != u32::MAX);
        let account = by_name.or_else(|| User::from_uid(Uid::from_raw(id?)).ok().flatten());
        match (account, id) {
            (Some(account), _) => Ok(RunAs::of_account(account)),
            (None, Some(id)) => Ok(RunAs::of_ids(id, id)),
            (None, None) => Err(Failure::usage(format!("--run-as: no user is called `{name}`"))),
        }
    }

    fn of_ids(uid: u32, gid: u32) -> RunAs {
        match User::from_uid(Uid::from_raw(uid)).ok().flatten() {
            Some(account) => RunAs { gid, ..RunAs::of_account(account) },
            None => RunAs { uid, gid, groups: vec![gid], name: uid.to_string(), variables: Vec::new() },
        }
    }

    fn of_account(account: User) -> RunAs {
        let gid = account.gid.as_raw();
        let groups = CString::new(account.name.as_bytes()).ok().and_then(|name| {
            let groups = getgrouplist(&name, account.gid).ok()?;
            Some(groups.into_iter().map(Gid::as_raw).collect())
        });
        let name = OsString::from(&account.name);
        RunAs {
            uid: account.uid.as_raw(),
            gid,
            groups: groups.unwrap_or_else(|| vec![gid]),
            variables: vec![
                ("HOME", account.dir.into()),
                ("SHELL", account.shell.into()),
                ("USER", name.clone()),
                ("LOGNAME", name),
            ],
            name: account.name,
        }
    }
}

/// The environment of a command, in the form of execve(2).
pub(super) fn environment(user: Option<&RunAs>) -> Vec<CString> {
    let changed = user.map(|user| &user.variables[..]).unwrap_or_default();
    let is_changed = |name: &OsStr| changed.iter().any(|(known, _)| name == *known);
    let kept = std::env::vars_os().filter(|(name, _)| !is_changed(name));
    let changed = changed.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let line = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    kept.chain(changed).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_is_no_other_one_and_unknown_names_are_refused() {
        let own = rustix::process::getuid().as_raw();
        assert!(matches!(RunAs::find(Some(&own.to_string())), Ok(None)));
        let error = RunAs::find(Some("no-such-user-of-prof")).expect_err("there is no such user");
        assert_eq!(error.status, status::USAGE);
        assert!(error.message.contains("`no-such-user-of-prof`"), "{}", error.message);
        assert_eq!(RunAs::find(Some("4294967295")).expect_err("it means no change").status, status::USAGE);
    }

    #[test]
    fn another_user_is_for_root_only() {
        let found = RunAs::find(Some("4000000"));
        if !rustix::process::getuid().is_root() {
            return assert_eq!(found.expect_err("only root may").status, status::NOT_PERMITTED);
        }
        let found = found.expect("root may").expect("it is another one");
        assert_eq!((found.uid, found.gid, &*found.name), (4_000_000, 4_000_000, "4000000"));
        assert_eq!(found.groups, [4_000_000], "without an account no other groups");
    }

    #[test]
    fn the_environment_names_the_user_and_keeps_the_rest() {
        let root = RunAs::named("root").expect("there is an account of root");
        assert_eq!((root.uid, root.gid), (0, 0));
        let root = RunAs { variables: vec![("HOME", "/home/of\u{e9}".into())], ..root };
        let lines = environment(Some(&root));
        let with =
            |start: &str| lines.iter().filter(|line| line.as_bytes().starts_with(start.as_bytes())).count();
        assert_eq!((with("HOME="), with("HOME=/home/of\u{e9}")), (1, 1));
        let added = usize::from(std::env::var_os("HOME").is_none());
        assert_eq!(lines.len(), environment(None).len() + added, "nothing else is changed");
    }
}
