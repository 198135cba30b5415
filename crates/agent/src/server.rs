//! The control socket: takes requests from root, and passes them to the agent's loop.

use super::error::{io_error, Error, Result};
use agent_api::protocol::{answer_line, parse_request, Command, Outcome, MAX_REQUEST};
use nix::unistd::{access, AccessFlags};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Connections at a time. One more takes the place of the one that has said nothing for longest.
const CONNECTIONS: usize = 64;
/// For each connection to send its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request with the place for its answer.
pub(super) type Asked<Q, A> = (Q, oneshot::Sender<A>);

/// The socket's file, which goes when this does.
pub(super) struct Server {
    path: PathBuf,
    connections: Arc<Semaphore>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Binds the socket and begins to take requests.
    ///
    /// # Errors
    /// What the file system says; [`prepare`] found out most of it.
    pub(super) fn start(path: &Path, requests: mpsc::Sender<Asked<Command, Outcome>>) -> Result<Server> {
        let listener = bind(path)?;
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let free = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut silent = VecDeque::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(100)).await; // out of descriptors, perhaps
                    continue;
                };
                if free.available_permits() == 0 {
                    hang_up_on_oldest(&mut silent);
                }
                let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
                let requests = requests.clone();
                let asked = Arc::new(AtomicBool::new(false));
                let said = Arc::clone(&asked);
                let connection = tokio::spawn(async move {
                    serve(stream, requests, &said).await;
                    drop(permit);
                });
                silent.retain(Silent::is_so);
                silent.push_back(Silent { asked, connection: connection.abort_handle() });
                // Whoever has said something is heard before the next comes in.
                tokio::task::yield_now().await;
            }
        });
        Ok(Server { path: path.into(), connections, task })
    }

    /// Takes no more requests, and waits a moment for answers that are on their way.
    pub(super) async fn finish(self) {
        self.task.abort();
        let _ = timeout(Duration::from_secs(1), self.connections.acquire_many(CONNECTIONS as u32)).await;
    }
}

/// A connection that may not have sent its request.
struct Silent {
    asked: Arc<AtomicBool>,
    connection: AbortHandle,
}

impl Silent {
    fn is_so(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) && !self.connection.is_finished()
    }
}

/// Without effect if all have asked: they wait for the agent, and are answered in turn.
fn hang_up_on_oldest(connections: &mut VecDeque<Silent>) {
    connections.retain(Silent::is_so);
    if let Some(oldest) = connections.pop_front() {
        oldest.connection.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Can a socket be there? Changes nothing, and does not look who listens.
///
/// # Errors
/// What the file system says.
pub(super) fn check(path: &Path) -> Result<()> {
    let failed = |e| Err(Error::Io("listen on", path.into(), e));
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket()) {
        return failed(std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "there is something that is no socket; name another path with agent.socket",
        ));
    }
    let mut above = path.ancestors().skip(1);
    let existing = above.find(|dir| fs::symlink_metadata(dir).is_ok()).unwrap_or(Path::new("/"));
    if !existing.is_dir() {
        return failed(nix::errno::Errno::ENOTDIR.into());
    }
    access(existing, AccessFlags::W_OK | AccessFlags::X_OK).or_else(|e| failed(e.into()))
}

/// Makes the socket's place free, and its directory if it is missing.
///
/// # Errors
/// As [`check`]; [`Error::SocketInUse`].
pub(super) async fn prepare(path: &Path) -> Result<()> {
    check(path)?;
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(io_error("create", dir))?;
    }
    if fs::symlink_metadata(path).is_ok() {
        match timeout(PATIENCE, UnixStream::connect(path)).await {
            // What an agent left that was killed.
            Ok(Err(e)) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(io_error("remove", path))?;
            }
            _ => return Err(Error::SocketInUse(path.into())),
        }
    }
    Ok(())
}

fn bind(path: &Path) -> Result<UnixListener> {
    // From its first moment on the socket is root's only. No other thread makes files.
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    nix::sys::stat::umask(mask);
    listener.map_err(io_error("listen on", path))
}

async fn serve(mut stream: UnixStream, requests: mpsc::Sender<Asked<Command, Outcome>>, asked: &AtomicBool) {
    let outcome = match permitted(&stream) {
        false => Outcome::Error("only root may ask".into()),
        true => match timeout(PATIENCE, read_line(&mut stream)).await {
            Ok(Ok(line)) => {
                asked.store(true, Ordering::Relaxed);
                // Without an answer it is known that another agent is to be asked.
                let Some(outcome) = ask(&line, requests).await else { return };
                outcome
            }
            Ok(Err(_)) => return,
            Err(_) => Outcome::Error("no request came in time".into()),
        },
    };
    let line = answer_line(outcome);
    let _ = timeout(PATIENCE, async {
        stream.write_all(&line).await?;
        stream.shutdown().await
    })
    .await;
}

/// Root, or whoever the agent runs as.
fn permitted(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw())
}

/// Up to the first line's end, the stream's end, or one byte too many.
async fn read_line(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(128);
    let mut buffer = [0; 256];
    while line.len() <= MAX_REQUEST {
        let n = stream.read(&mut buffer).await?;
        let end = buffer[..n].iter().position(|b| *b == b'\n');
        line.extend_from_slice(&buffer[..end.unwrap_or(n)]);
        if n == 0 || end.is_some() {
            break;
        }
    }
    Ok(line)
}

/// `None` if the agent is ending.
async fn ask(line: &[u8], requests: mpsc::Sender<Asked<Command, Outcome>>) -> Option<Outcome> {
    let command = match parse_request(line) {
        Ok(command) => command,
        Err(why) => return Some(Outcome::Error(why)),
    };
    let (place, answer) = oneshot::channel();
    requests.send((command, place)).await.ok()?;
    answer.await.ok()
}
