//! Installed manifests: what Windows' commands show of them, and installations that meet each other.

use crate::log_settings::Home;

const PROVIDER: &str = "7b1f0a3e-91d2-4c5b-8a66-000000000001";

/// A manifest with a provider of this name and GUID, whose first event has `fields` fields.
fn manifest(name: &str, guid: &str, fields: usize) -> String {
    let data: String =
        (0..fields).map(|n| format!("<data name='f{n}' inType='win:UInt32'/>")).collect();
    format!(
        "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'><instrumentation><events>\
         <provider name='{name}' guid='{{{guid}}}' symbol='ACME' resourceFileName='shop.dll' messageFileName='shop.dll' \
         message='$(string.P)'><channels><importChannel chid='A' name='Application'/>\
         <channel chid='D' name='Acme/Debug' type='Debug' message='$(string.C)'/>\
         <channel chid='E' name='Acme/Quiet' type='Debug'/></channels>\
         <levels><level name='acme:Loud' value='17' message='$(string.L)'/></levels>\
         <tasks><task name='Sell' value='1' eventGUID='{{{guid}}}' message='$(string.T)'/></tasks>\
         <opcodes><opcode name='Pay' value='11' message='$(string.O)'/></opcodes>\
         <keywords><keyword name='Orders' mask='0x1' message='$(string.K)'/><keyword name='Stock' mask='0x8'/></keywords>\
         <templates><template tid='T'>{data}</template></templates><events>\
         <event value='1' symbol='One' level='win:Error' task='Sell' opcode='Pay' keywords='Orders' template='T'/>\
         <event value='2' symbol='Two' level='acme:Loud' keywords='Stock' channel='A' message='$(string.M)'/>\
         </events></provider></events></instrumentation><localization><resources culture='en-US'><stringTable>\
         <string id='P' value='The shop'/><string id='C' value='Finding faults'/><string id='L' value='Loud'/><string id='T' value='Selling'/>\
         <string id='O' value='Paying'/><string id='K' value='Orders of customers'/><string id='M' value='two'/>\
         </stringTable></resources></localization></instrumentationManifest>"
    )
}

const LISTS: &str = "levels: \n  level: \n    name: win:Error\n    value: 2\n    message: Error\n  level: \n    name: acme:Loud\n    \
    value: 17\n    message: Loud\nopcodes: \n  opcode: \n    name: Pay\n    value: 720896\n      task: 0\n      opcode: 11\n    \
    message: Paying\ntasks: \n  task: \n    name: Sell\n    value: 1\n    eventGUID: 7b1f0a3e-91d2-4c5b-8a66-000000000001\n    \
    message: Selling\nkeywords: \n  keyword: \n    name: Orders\n    mask: 1\n    message: Orders of customers\n  keyword: \n    \
    name: Stock\n    mask: 8\n    message: \n";

const TABLES: &str = "\
Value               Keyword              Description
-------------------------------------------------------------------------------
0x0000000000000001  Orders               Orders of customers
0x0000000000000008  Stock

Value               Level                Description
-------------------------------------------------------------------------------
0x02                win:Error            Error
0x11                acme:Loud            Loud
";

/// OV-21: names, values and messages of what a provider declares, from its text and compiled.
#[test]
fn publishers_show_names_and_messages_of_what_they_declare() {
    let home = Home::new("publishers");
    std::fs::write(home.file("acme.man"), manifest("Acme", PROVIDER, 1)).unwrap();
    home.does(&["mc", "-um", "acme.man"]);
    for (file, paths) in [
        (
            "acme.man",
            "helpLink: \nresourceFileName: shop.dll\nmessageFileName: shop.dll\nmessage: ",
        ),
        ("acmeTEMP.BIN", "helpLink: \nmessage: "),
    ] {
        home.does(&["manifest", "install", file]);
        let shown = home.does(&["wevtutil", "gp", "Acme", "/gm:true"]);
        assert!(shown.ends_with(LISTS), "{file}: {shown}");
        assert!(shown.contains(&format!("{paths}The shop\n")), "{file}: {shown}");
        let channels = |application: &str, debug: &str| {
            format!(
                "channels: \n  channel: \n    name: Application\n    id: 9\n    flags: 1\n    message: {application}\n  \
                 channel: \n    name: Acme/Debug\n    id: 16\n    flags: 0\n    message: {debug}\n  \
                 channel: \n    name: Acme/Quiet\n    id: 17\n    flags: 0\n    message: \nlevels: "
            )
        };
        let texts = channels("Application", "Finding faults");
        assert!(shown.contains(&texts), "{file}: {shown}");
        // Messages are numbers by default: those of a level, an opcode and a keyword with a message, none without one.
        let numbers = home.does(&["wevtutil", "gp", "Acme"]);
        let number = |name: &str, rest: &str, id: u32| {
            let part = format!("name: {name}\n    {rest}\n    message: {id}\n");
            assert!(numbers.contains(&part), "{file}: {part}{numbers}");
        };
        let ids = channels(&0x9000_0002u32.to_string(), &0x9000_0003u32.to_string());
        assert!(numbers.contains(&ids), "{file}: {numbers}");
        number("win:Error", "value: 2", 0x5000_0002);
        number("Pay", "value: 720896\n      task: 0\n      opcode: 11", 0x3000_000b);
        number("Orders", "mask: 1", 0x1000_0001);
        assert!(numbers.ends_with("name: Stock\n    mask: 8\n    message: \n"), "{numbers}");
        let queried = home.does(&["logman", "query", "providers", "Acme"]);
        assert!(queried.contains(TABLES), "{file}: {queried}");
        home.does(&["manifest", "uninstall", "Acme"]);
    }
}

#[test]
fn a_name_that_fills_its_column_does_not_touch_the_guid() {
    let home = Home::new("long-names");
    for (length, spaces) in [(39, 2), (40, 1), (41, 1), (60, 1)] {
        let name = format!("Acme{}", "x".repeat(length - 4));
        std::fs::write(home.file("long.man"), manifest(&name, PROVIDER, 1)).unwrap();
        home.does(&["manifest", "install", "--force", "long.man"]);
        let row = format!("\n{name}{:spaces$}{{{}}}\n", "", PROVIDER.to_uppercase());
        for words in
            [&["logman", "query", "providers"][..], &["logman", "query", "providers", &name]]
        {
            let shown = home.does(words);
            assert!(shown.contains(&row), "{row}: {shown}");
        }
    }
}

#[test]
fn installations_at_the_same_time_leave_one_of_them() {
    let home = Home::new("installations");
    let names: Vec<String> = (0..6).map(|n| format!("m{n}.man")).collect();
    for (n, name) in names.iter().enumerate() {
        std::fs::write(home.file(name), manifest("Acme", PROVIDER, n + 1)).unwrap();
    }
    for _ in 0..4 {
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| home.does(&["manifest", "install", "--force", name]));
            }
        });
        let list = home.does(&["manifest", "list"]);
        assert_eq!(list.lines().count(), 1, "{list}");
    }
}

#[test]
fn a_cut_manifest_leaves_the_installed_one() {
    let home = Home::new("cut-manifest");
    let text = manifest("Acme", PROVIDER, 1);
    std::fs::write(home.file("acme.man"), &text).unwrap();
    home.does(&["manifest", "install", "acme.man"]);
    let installed = home.does(&["manifest", "list"]);
    for part in [3, 2] {
        std::fs::write(home.file("acme.man"), &text[..text.len() * (part - 1) / part]).unwrap();
        let refused = home.run(&["manifest", "install", "--force", "acme.man"]);
        assert_eq!(refused.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("is not complete"));
        assert_eq!(home.does(&["manifest", "list"]), installed);
    }
}

#[test]
fn a_manifest_replaces_no_provider_that_it_does_not_describe() {
    let home = Home::new("two-providers");
    let second = "7b1f0a3e-91d2-4c5b-8a66-000000000002";
    let one = manifest("Acme", PROVIDER, 1);
    let end = one.find("</events></instrumentation>").unwrap();
    let start = one.find("<provider").unwrap();
    let other = manifest("Other", second, 2);
    let other = &other
        [other.find("<provider").unwrap()..other.find("</events></instrumentation>").unwrap()];
    let both = format!("{}{}{other}{}", &one[..start], &one[start..end], &one[end..]);
    std::fs::write(home.file("both.man"), both).unwrap();
    std::fs::write(home.file("acme.man"), &one).unwrap();
    home.does(&["manifest", "install", "both.man"]);
    let refused = home.run(&["manifest", "install", "--force", "acme.man"]);
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("both.man.etwpack, which describes Other, too"), "{said}");
    assert_eq!(home.does(&["manifest", "list"]).lines().count(), 2);
    // A newer version of the same file replaces the older one.
    std::fs::write(home.file("both.man"), &one).unwrap();
    home.does(&["manifest", "install", "--force", "both.man"]);
    assert_eq!(home.does(&["manifest", "list"]).lines().count(), 1);
}
