//! Page faults, from neutral events. OV-23.

use etw_system::neutral::*;

use crate::shaper::{Machinery, SECOND, of, some_file};

#[test]
fn page_faults_have_their_kinds() {
    let mut machine = Machinery::new();
    let begin = |is_protection| Detail::FaultBegin { is_protection };
    let page = |offset, is_around| Detail::FileFault { file: some_file().id, offset, is_around };
    let fault = |is_hard| Detail::Fault { address: 0x1234, program_counter: 0x4010, is_hard };
    for (time, before) in [(10, None), (20, Some(begin(true))), (30, Some(begin(false)))] {
        before.into_iter().for_each(|before| machine.at(time, 0, 50, before));
        machine.at(time + 1, 0, 50, fault(false));
    }
    for (time, is_hard) in [(40, false), (50, true)] {
        machine.at(time, 0, 50, begin(false));
        machine.at(time + 1, 0, 50, page(0x3000, true));
        machine.at(time + 2, 0, 50, page(0x2000, false));
        // The page that was read is mapped with those around it.
        machine.at(time + 3, 0, 50, page(0x1000, true));
        machine.at(time + 4, 0, 50, fault(is_hard));
    }
    let records = machine.end();
    let counts = [0x020a, 0x020b, 0x020c, 0x0220].map(|hook| of(&records, hook).len());
    assert_eq!(counts, [1, 2, 1, 1]);
    let hard = of(&records, 0x0220)[0];
    assert_eq!(hard.u64(0) as i64, (SECOND + 50_000) as i64 / 100);
    assert_eq!((hard.u64(8), hard.u64(16), hard.u32(32)), (0x2000, 0x1234, 50));
    assert_ne!(hard.u64(24), 0);
}
