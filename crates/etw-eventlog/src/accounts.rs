//! Users and groups of this system, by their numbers.

/// The number of a group in `/etc/group`.
pub fn group_id(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups
        .lines()
        .find_map(|line| Group::parse(line).filter(|group| group.name == name))
        .map(|group| group.id)
}

/// The groups of a user in `/etc/passwd` and `/etc/group`; none for a user that is not there.
pub(crate) fn groups_of(user: u32) -> Vec<u32> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    groups_in(&read("/etc/passwd"), &read("/etc/group"), user)
}

fn groups_in(users: &str, groups: &str, user: u32) -> Vec<u32> {
    let found = users.lines().find_map(|line| {
        let parts: Vec<&str> = line.split(':').collect();
        let [name, _, id, group, ..] = parts[..] else { return None };
        (id.parse() == Ok(user)).then(|| Some((name, group.parse().ok()?)))?
    });
    let Some((name, own)) = found else { return Vec::new() };
    let mut all = vec![own];
    for group in groups.lines().filter_map(Group::parse) {
        if group.members.split(',').any(|member| member == name) && !all.contains(&group.id) {
            all.push(group.id);
        }
    }
    all
}

/// A line of `/etc/group`.
struct Group<'l> {
    name: &'l str,
    id: u32,
    members: &'l str,
}

impl Group<'_> {
    fn parse(line: &str) -> Option<Group<'_>> {
        let mut parts = line.split(':');
        let (name, id, members) = (parts.next()?, parts.nth(1)?, parts.next().unwrap_or_default());
        Some(Group { name, id: id.parse().ok()?, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_user_are_its_own_and_those_that_name_it() {
        let users = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbroken\n";
        let groups = "root:x:0:\nada:x:1000:\nreaders:x:50:bob,ada\nadam:x:60:adam\nx:y\n";
        assert_eq!(groups_in(users, groups, 1000), [1000, 50]);
        assert_eq!(groups_in(users, groups, 7), [0u32; 0]);
    }
}
