//! [`Access`]: who may read, write and clear a log, from its SDDL text.
//!
//! Windows' accounts stand for users and groups of this system:
//!
//! | SID | account here |
//! |---|---|
//! | `SY`, `BA`, `S-1-5-18`, `S-1-5-32-544` | root, and the user whose host keeps the log |
//! | `IU`, `SU`, `AU`, `WD`, `BU`, `LS`, `NS` and the SIDs of batch jobs and service accounts | every user |
//! | `ER`, `S-1-5-32-573` | members of the group `openetw-readers` |
//! | `S-1-22-1-UID`, `S-1-22-2-GID` | a user, a group (Samba's form) |
//!
//! Other SIDs stand for nobody. Entries are judged in their order, as in Windows: a right is granted or denied by the first
//! entry that names it.

use std::fmt;
use std::ops::BitOr;

/// The group whose members are Windows' "Event Log Readers".
pub const READERS: &str = "openetw-readers";

/// Bytes of an SDDL text; Windows' own have some hundreds.
const MAX_SDDL: usize = 16 << 10;

/// Rights to a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u32);

impl Rights {
    /// Read records.
    pub const READ: Rights = Rights(1);
    /// Write records.
    pub const WRITE: Rights = Rights(2);
    /// Clear the log.
    pub const CLEAR: Rights = Rights(4);

    /// Whether these rights include others.
    pub const fn contains(self, others: Rights) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// Somebody who asks for a right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// Numbers of the user's groups.
    pub groups: Vec<u32>,
    /// The user is in the group [`READERS`].
    pub is_reader: bool,
    /// The user's host keeps the log.
    pub is_owner: bool,
}

impl User {
    /// A user with these groups. `owner`: the user whose host keeps the log.
    pub fn of(uid: u32, groups: Vec<u32>, owner: u32) -> User {
        let readers = crate::accounts::group_id(READERS);
        let is_reader = readers.is_some_and(|readers| groups.contains(&readers));
        User { uid, groups, is_reader, is_owner: uid == owner }
    }
}

/// The account of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    Administrators,
    Everyone,
    Readers,
    User(u32),
    Group(u32),
    Nobody,
}

impl Account {
    fn parse(text: &str) -> Option<Account> {
        let upper = text.to_ascii_uppercase();
        let number = |prefix: &str| upper.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        Some(match upper.as_str() {
            "SY" | "BA" | "LA" | "S-1-5-18" | "S-1-5-32-544" => Account::Administrators,
            "IU" | "SU" | "AU" | "WD" | "BU" | "LS" | "NS" | "S-1-1-0" | "S-1-5-3" | "S-1-5-4"
            | "S-1-5-6" | "S-1-5-11" | "S-1-5-19" | "S-1-5-20" | "S-1-5-33" | "S-1-5-32-545" => {
                Account::Everyone
            }
            "ER" | "S-1-5-32-573" => Account::Readers,
            other if other.starts_with("S-1-") => number("S-1-22-1-")
                .map(Account::User)
                .or_else(|| number("S-1-22-2-").map(Account::Group))
                .unwrap_or(Account::Nobody),
            other if other.len() == 2 && other.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
                Account::Nobody
            }
            _ => return None,
        })
    }

    fn includes(self, user: &User) -> bool {
        match self {
            Account::Administrators => user.uid == 0 || user.is_owner,
            Account::Everyone => true,
            Account::Readers => user.is_reader,
            Account::User(uid) => user.uid == uid,
            Account::Group(gid) => user.groups.contains(&gid),
            Account::Nobody => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    allows: bool,
    rights: Rights,
    account: Account,
}

/// An SDDL text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError {
    /// Offset in the text.
    pub offset: usize,
    /// The expectation that was not met.
    pub expected: &'static str,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccessError { offset, expected } = self;
        write!(f, "access: expected {expected} at column {} of the SDDL text", offset + 1)
    }
}

impl std::error::Error for AccessError {}

/// The rights to a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    entries: Vec<Entry>,
}

impl Access {
    /// Reads an SDDL text. Its `D:` part counts; owner, group and `S:` are ignored.
    ///
    /// # Errors
    /// A text without a `D:` part, an entry that cannot be read, a text beyond 16 KiB.
    pub fn parse(sddl: &str) -> Result<Access, AccessError> {
        if sddl.len() > MAX_SDDL {
            return Err(AccessError { offset: MAX_SDDL, expected: "the end" });
        }
        let start = part_start(sddl, "D:")
            .ok_or(AccessError { offset: 0, expected: "D: with the entries of the log" })?;
        let end = part_start(&sddl[start..], "S:").map_or(sddl.len(), |end| start + end - 2);
        let list = &sddl[start..end];
        let mut entries = Vec::new();
        let mut at = list.find('(').unwrap_or(list.len());
        if !list[..at].bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(AccessError { offset: start, expected: "flags of the list" });
        }
        while at < list.len() {
            let error = |expected| AccessError { offset: start + at, expected };
            let inner = list[at..].strip_prefix('(').ok_or_else(|| error("("))?;
            let length = inner.find(')').ok_or_else(|| error("an entry that ends with )"))?;
            let parts: Vec<&str> = inner[..length].split(';').map(str::trim).collect();
            let [kind, _, rights, _, _, sid] = parts[..] else {
                return Err(error("an entry of six parts, as in (A;;0x1;;;BA)"));
            };
            let allows = match kind.to_ascii_uppercase().as_str() {
                "A" => true,
                "D" => false,
                _ => return Err(error("an entry of kind A or D")),
            };
            entries.push(Entry {
                allows,
                rights: parse_rights(rights)
                    .ok_or_else(|| error("rights as a number, or as in GAGRGW"))?,
                account: Account::parse(sid).ok_or_else(|| error("a SID, or as in BA"))?,
            });
            at += length + 2;
        }
        Ok(Access { entries })
    }

    /// Whether a user has all of these rights.
    pub fn allows(&self, user: &User, rights: Rights) -> bool {
        let mut left = rights.0;
        for entry in self.entries.iter().filter(|entry| entry.account.includes(user)) {
            match entry.allows {
                true => left &= !entry.rights.0,
                false if entry.rights.0 & left != 0 => return false,
                false => {}
            }
            if left == 0 {
                return true;
            }
        }
        left == 0
    }

    /// Permission bits of the log's file, which say what everybody may.
    pub fn file_mode(&self) -> u32 {
        if self.everyone_may_read() { 0o644 } else { 0o600 }
    }

    /// Whether a user may read whom the text does not name.
    pub fn everyone_may_read(&self) -> bool {
        self.allows(&User { uid: u32::MAX, ..User::default() }, Rights::READ)
    }

    /// Whether members of the group [`READERS`] may read.
    pub fn readers_may_read(&self) -> bool {
        let reader = User { uid: u32::MAX, is_reader: true, ..User::default() };
        self.allows(&reader, Rights::READ)
    }

    /// Users and groups that the text names by number: they need more than permission bits.
    pub fn named_readers(&self) -> NamedReaders {
        let mut named = NamedReaders::default();
        for entry in &self.entries {
            let (list, user) = match entry.account {
                Account::User(uid) => (&mut named.users, User { uid, ..User::default() }),
                Account::Group(gid) => {
                    let user = User { uid: u32::MAX, groups: vec![gid], ..User::default() };
                    (&mut named.groups, user)
                }
                _ => continue,
            };
            let id = *user.groups.first().unwrap_or(&user.uid);
            if !list.iter().any(|one| one.id == id) {
                list.push(NamedReader { id, may_read: self.allows(&user, Rights::READ) });
            }
        }
        named
    }
}

/// Users and groups that a log's rights name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedReaders {
    /// Users.
    pub users: Vec<NamedReader>,
    /// Groups.
    pub groups: Vec<NamedReader>,
}

/// A user or group that a log's rights name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedReader {
    /// Number of the user or group.
    pub id: u32,
    /// Whether it may read.
    pub may_read: bool,
}

/// The offset behind the mark of a part. No `D:` or `S:` stands inside of an entry.
fn part_start(sddl: &str, mark: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in sddl.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ if depth == 0
                && sddl
                    .as_bytes()
                    .get(offset..offset + mark.len())
                    .is_some_and(|found| found.eq_ignore_ascii_case(mark.as_bytes())) =>
            {
                return Some(offset + mark.len());
            }
            _ => {}
        }
    }
    None
}

fn parse_rights(text: &str) -> Option<Rights> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    if let Some(number) = number {
        return Some(Rights(number & 7));
    }
    if text.is_empty() || !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let mut rights = Rights::default();
    for code in text.as_bytes().chunks(2) {
        rights = rights
            | match code.to_ascii_uppercase().as_slice() {
                b"GA" => Rights(7),
                b"GR" | b"CC" => Rights::READ,
                b"GW" | b"DC" => Rights::WRITE,
                b"LC" => Rights::CLEAR,
                // Rights to the descriptor itself.
                b"GX" | b"RC" | b"SD" | b"WD" | b"WO" | b"SW" | b"RP" | b"WP" | b"DT" | b"LO"
                | b"CR" => Rights::default(),
                _ => return None,
            };
    }
    Some(rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLICATION: &str =
        "O:BAG:SYD:(A;;0xf0007;;;SY)(A;;0x7;;;BA)(A;;0x3;;;IU)(A;;0x3;;;SU)(A;;0x1;;;S-1-5-32-573)";

    fn user(uid: u32) -> User {
        User { uid, ..User::default() }
    }

    /// OV-22: three users, with the rights that the text gives them.
    #[test]
    fn sddl_grants_and_denies_by_user() {
        let access = Access::parse(APPLICATION).unwrap();
        assert!(access.allows(&user(0), Rights::READ | Rights::WRITE | Rights::CLEAR));
        assert!(access.allows(&user(1000), Rights::READ | Rights::WRITE));
        assert!(!access.allows(&user(1000), Rights::CLEAR));
        let own = User { is_owner: true, ..user(1000) };
        assert!(access.allows(&own, Rights::CLEAR));

        let access =
            Access::parse("D:(D;;0x2;;;S-1-22-1-7)(A;;GA;;;BA)(A;;GRGW;;;S-1-22-2-50)(A;;1;;;ER)")
                .unwrap();
        let member = User { groups: vec![50], ..user(8) };
        assert!(access.allows(&member, Rights::READ | Rights::WRITE));
        let denied = User { groups: vec![50], ..user(7) };
        assert!(access.allows(&denied, Rights::READ) && !access.allows(&denied, Rights::WRITE));
        assert!(!access.allows(&user(9), Rights::READ));
        assert!(access.allows(&User { is_reader: true, ..user(9) }, Rights::READ));
    }

    #[test]
    fn permissions_of_the_file_follow_the_text() {
        let access = |sddl| Access::parse(sddl).unwrap();
        assert_eq!(access(APPLICATION).file_mode(), 0o644);
        let readers = access("D:(A;;0x7;;;BA)(A;;0x1;;;ER)");
        assert_eq!(readers.file_mode(), 0o600);
        assert!(readers.readers_may_read() && !readers.everyone_may_read());
        assert_eq!(access("D:(A;;0x7;;;BA)(A;;0x1;;;S-1-22-1-5)").file_mode(), 0o600);
        let named = access("D:(A;;0x1;;;S-1-22-1-5)(D;;0x1;;;S-1-22-2-6)(A;;2;;;WD)");
        let of = |id, may_read| vec![NamedReader { id, may_read }];
        let expected = NamedReaders { users: of(5, true), groups: of(6, false) };
        assert_eq!(named.named_readers(), expected);
    }

    #[test]
    fn texts_that_are_no_sddl_are_rejected_with_their_column() {
        for (text, column) in [
            ("", 1),
            ("O:BA", 1),
            ("D:(A;;1;;;BA", 3),
            ("D:(A;;1;;BA)", 3),
            ("D:(A;;zz;;;BA)", 3),
            ("D:(A;;1;;;BA)(X;;1;;;BA)", 14),
            ("D:(A;;1;;;nobody)", 3),
        ] {
            let error = Access::parse(text).unwrap_err();
            assert_eq!(error.offset + 1, column, "{text}: {error}");
        }
        assert!(Access::parse(&"D:".repeat(MAX_SDDL)).is_err());
    }
}
