//! Permissions of the files of logs.

use crate::access::Access;
use std::io;
use std::path::Path;

/// Gives a log's file the permissions of its access rights: mode bits for everybody, and an access list for users and groups that
/// the rights name, and for the group of readers.
///
/// # Errors
/// Those of the system. `Unsupported`: the file system has no access lists; the mode bits are set then, and nobody else may read.
#[cfg(target_os = "linux")]
pub fn permit(path: &Path, access: &Access) -> io::Result<()> {
    use rustix::fs::{XattrFlags, removexattr, setxattr};
    use std::os::unix::fs::PermissionsExt;
    const LIST: &str = "system.posix_acl_access";
    // A list that the file has would change what the mode bits mean.
    let _ = removexattr(path, LIST);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(access.file_mode()))?;
    let list = access_list(access, crate::accounts::group_id(crate::access::READERS));
    if list.is_empty() {
        return Ok(());
    }
    setxattr(path, LIST, &list, XattrFlags::empty()).map_err(|error| {
        let what = "this file system has no access lists: users and groups that the log's rights name cannot read it";
        match error {
            rustix::io::Errno::OPNOTSUPP => io::Error::new(io::ErrorKind::Unsupported, what),
            other => other.into(),
        }
    })
}

/// On other systems, logs have the permissions of their folder.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn permit(_: &Path, _: &Access) -> io::Result<()> {
    Ok(())
}

/// The access list of a file as Linux stores it; empty if mode bits say everything. `readers`: the number of the group of readers.
///
/// ```text
/// u32 2, then for each entry: u16 tag, u16 permissions, u32 id
/// tags: 1 owner, 2 a user, 4 the file's group, 8 a group, 16 most of users and groups, 32 others
/// ```
#[cfg(target_os = "linux")]
fn access_list(access: &Access, readers: Option<u32>) -> Vec<u8> {
    const READ: u16 = 4;
    let named = access.named_readers();
    let mut groups = named.groups;
    if let Some(id) = readers.filter(|id| !groups.iter().any(|one| one.id == *id)) {
        let may_read = access.readers_may_read();
        if may_read != access.everyone_may_read() {
            groups.push(crate::access::NamedReader { id, may_read });
        }
    }
    if named.users.is_empty() && groups.is_empty() {
        return Vec::new();
    }
    let of = |may_read: bool| if may_read { READ } else { 0 };
    let everyone = of(access.everyone_may_read());
    let mut entries = vec![(1, 6, u32::MAX), (4, everyone, u32::MAX), (16, READ, u32::MAX)];
    entries.extend(named.users.iter().map(|one| (2, of(one.may_read), one.id)));
    entries.extend(groups.iter().map(|one| (8, of(one.may_read), one.id)));
    entries.push((32, everyone, u32::MAX));
    entries.sort_unstable_by_key(|(tag, _, id): &(u16, u16, u32)| (*tag, *id));
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// OV-22: users, groups and readers that the rights name are in the file's access list, in Linux' order.
    #[test]
    fn named_readers_are_in_the_access_list() {
        let list = |sddl, readers| access_list(&Access::parse(sddl).unwrap(), readers);
        assert_eq!(list("D:(A;;7;;;BA)(A;;1;;;WD)(A;;1;;;ER)", Some(9)), [0u8; 0]);
        assert_eq!(list("D:(A;;7;;;BA)(A;;1;;;ER)", None), [0u8; 0]);
        let entries = |bytes: &[u8]| -> Vec<(u8, u8, u8)> {
            assert_eq!(bytes[..4], [2, 0, 0, 0]);
            bytes[4..].chunks(8).map(|entry| (entry[0], entry[2], entry[4])).collect()
        };
        let readers = list("D:(A;;7;;;BA)(A;;1;;;ER)", Some(9));
        assert_eq!(
            entries(&readers),
            [(1, 6, 255), (4, 0, 255), (8, 4, 9), (16, 4, 255), (32, 0, 255)]
        );
        let named = list("D:(D;;1;;;S-1-22-1-5)(A;;1;;;WD)(A;;1;;;S-1-22-2-6)", Some(9));
        let expected = [(1, 6, 255), (2, 0, 5), (4, 4, 255), (8, 4, 6), (16, 4, 255), (32, 4, 255)];
        assert_eq!(entries(&named), expected);
    }
}
