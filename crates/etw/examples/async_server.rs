//! A server whose requests are activities, across `.await` and on whatever thread they continue.
//!
//! ```sh
//! cargo run --release -p openetw --features session --example async_server -- server.etl
//! cargo run --release -p etw-cli -- dump server.etl
//! ```
//!
//! The executor is a toy: tasks in a queue, polled by a few threads. `Activity::instrument` works with any.
use etw::{Activity, Keyword, Level, Session, define_provider, write_event};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

define_provider!(SERVER, "OpenEtw.Example.Server");

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls every task in turn until all are done.
#[derive(Default)]
struct Executor {
    tasks: Mutex<(VecDeque<Task>, usize)>,
    changed: Condvar,
}

struct Again;

impl Wake for Again {
    // A task that waits is polled again in its turn.
    fn wake(self: Arc<Self>) {}
}

impl Executor {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap();
        tasks.0.push_back(Box::pin(task));
        tasks.1 += 1;
        self.changed.notify_one();
    }

    fn run(&self) {
        let waker = Waker::from(Arc::new(Again));
        loop {
            let mut tasks = self.tasks.lock().unwrap();
            let mut task = loop {
                match tasks.0.pop_front() {
                    Some(task) => break task,
                    None if tasks.1 == 0 => return,
                    None => tasks = self.changed.wait(tasks).unwrap(),
                }
            };
            drop(tasks);
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            let mut tasks = self.tasks.lock().unwrap();
            match polled {
                Poll::Ready(()) => tasks.1 -= 1,
                Poll::Pending => tasks.0.push_back(task),
            }
            self.changed.notify_all();
        }
    }
}

/// Lets others go first, as waiting for something does.
async fn pause() {
    let mut polled = false;
    std::future::poll_fn(move |_| {
        if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn query(number: u32) -> u32 {
    // A step of its own within the request, which is related to it.
    let step = Activity::new();
    step.instrument(async move {
        write_event!(
            SERVER,
            "Query",
            opcode(Start),
            level(Verbose),
            related_id(step.related_id()),
            u32("Number", &number)
        );
        pause().await;
        write_event!(SERVER, "Query", opcode(Stop), level(Verbose), u32("Rows", &(number * 2)));
        number * 2
    })
    .await
}

async fn serve(mut stream: TcpStream) {
    let mut request = [0; 4];
    if let Err(error) = stream.read_exact(&mut request) {
        write_event!(SERVER, "BadRequest", level(Warning), str8("Error", &error.to_string()));
        return;
    }
    let number = u32::from_le_bytes(request);
    write_event!(SERVER, "Request", opcode(Start), level(Informational), u32("Number", &number));
    let mut sum = 0;
    for part in 0..3 {
        sum += query(number + part).await;
        pause().await;
    }
    let sent = stream.write_all(&sum.to_le_bytes());
    write_event!(
        SERVER,
        "Request",
        opcode(Stop),
        level(Informational),
        u32("Sum", &sum),
        bool8("Sent", &sent.is_ok())
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const CLIENTS: u32 = 20;
    let path = std::env::args().nth(1).ok_or("usage: async_server FILE.etl")?;
    let _registration = SERVER.register();
    let session = Session::builder("async_server").file(&path).start()?;
    session.enable(&SERVER, Level::VERBOSE, Keyword(0))?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let clients = std::thread::spawn(move || -> std::io::Result<u32> {
        let mut sum = 0;
        let streams: Vec<TcpStream> =
            (0..CLIENTS).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        for (number, stream) in (0..).zip(&streams) {
            (&mut &*stream).write_all(&u32::to_le_bytes(number))?;
        }
        for mut stream in streams {
            let mut answer = [0; 4];
            stream.read_exact(&mut answer)?;
            sum += u32::from_le_bytes(answer);
        }
        Ok(sum)
    });

    let executor = Executor::default();
    for stream in listener.incoming().take(CLIENTS as usize) {
        executor.spawn(Activity::new().instrument(serve(stream?)));
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| executor.run());
        }
    });
    let sum = clients.join().map_err(|_| "the clients panicked")??;
    let ledger = session.stop()?.ledger;
    println!(
        "{CLIENTS} answers, {sum} in all; {} events in {path}, {} lost",
        ledger.stored,
        ledger.lost_total()
    );
    Ok(())
}
