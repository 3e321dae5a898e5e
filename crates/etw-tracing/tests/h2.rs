//! A library of the registry that knows nothing of ETW: `h2`, HTTP/2 with `tracing`'s spans and events. Client and server talk to each
//! other, the layer records them, and what is read back is what the library has said.
#![allow(missing_docs)]

use bytes::Bytes;
use etw::{Guid, Keyword, Level, Session};
use etw_decode::Decoder;
use etw_etl::read::{Records, TraceFile};
use std::collections::HashMap;
use tracing_subscriber::prelude::*;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// One request, `path`, and its answer.
async fn talk(path: &'static str) -> Result<(http::StatusCode, Vec<u8>), Error> {
    let (near, far) = tokio::io::duplex(4096);
    let server = tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await?;
        while let Some(next) = connection.accept().await {
            let (request, mut respond) = next?;
            let answer = format!("you asked for {}", request.uri().path());
            let head = http::Response::builder().status(203).body(())?;
            respond.send_response(head, false)?.send_data(Bytes::from(answer), true)?;
        }
        Ok::<(), Error>(())
    });
    let (client, connection) = h2::client::handshake(near).await?;
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await?;
    let request = http::Request::get(format!("http://example.org{path}")).body(())?;
    let (answer, _) = client.send_request(request, true)?;
    let (head, mut body) = answer.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        bytes.extend_from_slice(&part);
    }
    drop((client, body));
    connection.await??;
    server.await??;
    Ok((head.status, bytes))
}

struct Seen {
    event: String,
    opcode: u8,
    activity: Guid,
    related: Option<Guid>,
    fields: HashMap<String, String>,
}

fn read(path: &std::path::Path, provider: &str) -> Vec<Seen> {
    let mut records = Records::new(vec![TraceFile::open(path).unwrap()]);
    let mut decoder = Decoder::new();
    let mut seen = Vec::new();
    while let Some(record) = records.next() {
        let decoded = decoder.decode(&record);
        if decoded.provider_name().as_deref() != Some(provider) {
            continue;
        }
        let fields = decoded.fields(&record).unwrap().unwrap();
        let text = |value: &etw_decode::FieldValue| match value.as_str() {
            Some(text) => text.to_owned(),
            None => format!("{value:?}"),
        };
        seen.push(Seen {
            event: decoded.event_name().unwrap().to_owned(),
            opcode: record.descriptor.opcode.0,
            activity: record.activity_id,
            related: record.related_activity_id(),
            fields: fields.iter().map(|(name, value)| (name.to_owned(), text(value))).collect(),
        });
    }
    seen
}

const START: u8 = 1;
const STOP: u8 = 2;

#[test]
fn a_library_that_nobody_here_wrote() -> Result<(), Error> {
    const PROVIDER: &str = "Test.Http2";
    let path = std::env::temp_dir().join(format!("etw-tracing-{}-h2.etl", std::process::id()));
    let session = Session::builder("h2").file(&path).portable().start()?;
    session.enable(&Guid::from_name(PROVIDER), Level::VERBOSE, Keyword(0))?;
    {
        let _default =
            tracing_subscriber::registry().with(etw_tracing::layer(PROVIDER)).set_default();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (status, body) = runtime.block_on(talk("/some/where"))?;
        assert_eq!(status, 203);
        assert_eq!(body, b"you asked for /some/where");
    }
    let ledger = session.stop()?.ledger;
    assert_eq!(ledger.lost_total(), 0, "{ledger:?}");
    let seen = read(&path, PROVIDER);
    std::fs::remove_file(&path)?;

    // Each span begins and ends once, with an activity of its own.
    let mut spans: HashMap<Guid, &Seen> = HashMap::new();
    let mut open: HashMap<Guid, &str> = HashMap::new();
    for event in &seen {
        match event.opcode {
            START => {
                assert!(spans.insert(event.activity, event).is_none(), "{}", event.event);
                open.insert(event.activity, &event.event);
            }
            STOP => assert_eq!(open.remove(&event.activity), Some(event.event.as_str())),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");

    // The way from a span to the outermost one.
    let outermost = |mut activity: Guid| -> &Seen {
        loop {
            let span = spans[&activity];
            match span.related {
                Some(outer) if span.event != "Connection" => activity = outer,
                _ => return span,
            }
        }
    };
    let mut peers: Vec<&str> = spans
        .values()
        .filter(|span| span.event == "Connection")
        .map(|span| span.fields["peer"].as_str())
        .collect();
    peers.sort_unstable();
    assert_eq!(peers, ["Client", "Server"]);

    // A sent frame is logged in a span with the same frame, and the other side receives it.
    let frames = |what: &str| -> Vec<&Seen> {
        let is_it = |event: &&Seen| event.fields.get("message").is_some_and(|text| text == what);
        seen.iter().filter(|event| event.opcode == 0).filter(is_it).collect()
    };
    let (sent, received) = (frames("send"), frames("received"));
    for event in &sent {
        let span = spans[&event.activity];
        assert_eq!(span.event, "FramedWrite::buffer");
        assert_eq!(span.fields["frame"], event.fields["frame"]);
    }
    let of = |events: &[&Seen], peer: &str, kind: &str| {
        let is_it = |event: &&&Seen| {
            event.fields["frame"].starts_with(kind)
                && outermost(event.activity).fields.get("peer").map(String::as_str) == Some(peer)
        };
        events.iter().filter(is_it).count()
    };
    for (kind, from, to) in [("Headers {", "Client", "Server"), ("Headers {", "Server", "Client")] {
        assert_eq!((of(&sent, from, kind), of(&received, to, kind)), (1, 1), "{from}");
    }
    assert_eq!((of(&sent, "Server", "Data {"), of(&received, "Client", "Data {")), (1, 1));
    assert_eq!(of(&received, "Server", "Data {"), 0);
    Ok(())
}
