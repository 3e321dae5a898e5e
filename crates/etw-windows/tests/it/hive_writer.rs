//! A writer of large hives, whose time grows with the number of keys; that of `regf` grows with its square.

/// A hive, written from the leaves to the root.
pub struct HiveWriter {
    /// The bins, in which offsets count.
    bins: Vec<u8>,
}

impl HiveWriter {
    pub fn new() -> HiveWriter {
        HiveWriter { bins: b"hbin".iter().copied().chain([0; 28]).collect() }
    }

    fn cell(&mut self, data: &[u8]) -> u32 {
        let at = self.bins.len();
        let size = (data.len() + 4).next_multiple_of(8);
        self.bins.extend((-(size as i32)).to_le_bytes());
        self.bins.extend(data);
        self.bins.resize(at + size, 0);
        at as u32
    }

    /// A text value.
    pub fn text(&mut self, name: &str, text: &str) -> u32 {
        let data: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let data_at = self.cell(&data);
        let mut value = b"vk".to_vec();
        value.extend((name.len() as u16).to_le_bytes());
        value.extend([data.len() as u32, data_at, 2, 1].map(u32::to_le_bytes).concat());
        value.extend(name.as_bytes());
        self.cell(&value)
    }

    /// A key with its subkeys and values.
    pub fn key(&mut self, name: &str, subkeys: &[u32], values: &[u32]) -> u32 {
        let mut list = b"lh".to_vec();
        list.extend((subkeys.len() as u16).to_le_bytes());
        list.extend(subkeys.iter().flat_map(|key| [*key, 0]).flat_map(u32::to_le_bytes));
        let subkeys_at = self.cell(&list);
        let list: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let values_at = self.cell(&list);
        let mut key = vec![0; 0x4c];
        let mut put = |at: usize, number: u32| {
            key[at..at + 4].copy_from_slice(&number.to_le_bytes());
        };
        put(0x14, subkeys.len() as u32);
        put(0x1c, subkeys_at);
        put(0x24, values.len() as u32);
        put(0x28, values_at);
        put(0x48, name.len() as u32);
        key[..4].copy_from_slice(b"nk\x20\0");
        key.extend(name.as_bytes());
        self.cell(&key)
    }

    /// A whole SOFTWARE hive with these publishers.
    pub fn software(mut self, publishers: &[u32]) -> Vec<u8> {
        let build = self.text("CurrentBuildNumber", "26100");
        let version = self.key("CurrentVersion", &[], &[build]);
        let mut key = self.key("Publishers", publishers, &[]);
        for name in ["WINEVT", "CurrentVersion", "Windows"] {
            key = self.key(name, &[key], &[]);
        }
        let old_name = self.key("Windows NT", &[version], &[]);
        let microsoft = self.key("Microsoft", &[key, old_name], &[]);
        let root = self.key("ROOT", &[microsoft], &[]);
        let mut hive = vec![0; 0x1000];
        hive[..12].copy_from_slice(b"regf\x01\0\0\0\x01\0\0\0");
        hive[0x24..0x28].copy_from_slice(&root.to_le_bytes());
        let numbers = hive[..0x1fc].chunks_exact(4);
        let sum = numbers.fold(0, |sum, part| sum ^ u32::from_le_bytes(part.try_into().unwrap()));
        hive[0x1fc..0x200].copy_from_slice(&sum.to_le_bytes());
        hive.extend(self.bins);
        hive
    }
}
