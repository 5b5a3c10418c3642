//! Two clouds in memory that do not collude, each holder of one half and shuffler of the other.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::Mutex;
use fogbank_mix::session::{FromCloud, MixCloud, Opening, Session, SessionError, ToCloud};
use fogbank_mix::{Holder, HolderSends, Shuffler, ShufflerSends};
use fogbank_store::MemoryStore;
use tokio::sync::mpsc;

type Sends = mpsc::UnboundedSender<FromCloud>;

/// What the clouds hold. It outlives whoever talks to them.
#[derive(Default)]
pub struct TwoClouds(Mutex<[Option<Cloud>; 2]>);

struct Cloud {
    holder: Holder,
    shuffler: Shuffler,
    session: u64,
    client: Sends,
}

impl TwoClouds {
    /// The ways to both.
    pub fn ways(self: &Arc<Self>) -> [Arc<dyn MixCloud>; 2] {
        [0, 1].map(|cloud| Arc::new(Way(self.clone(), cloud)) as Arc<dyn MixCloud>)
    }

    /// A message comes to a cloud in this session.
    fn comes(&self, at: usize, session: u64, message: ToCloud) {
        let mut clouds = self.0.lock();
        let Some(cloud) = clouds[at].as_mut().filter(|cloud| cloud.session == session) else {
            return;
        };
        match message {
            ToCloud::Holder(message) => {
                let sent = now(cloud.holder.ask(message)).unwrap();
                Self::holder_sends(&mut clouds, at, sent);
            }
            ToCloud::Shuffler(message) => {
                let sent = cloud.shuffler.ask(message).unwrap();
                Self::shuffler_sends(&mut clouds, at, sent);
            }
        }
    }

    fn holder_sends(clouds: &mut [Option<Cloud>; 2], at: usize, sent: Vec<HolderSends>) {
        for sent in sent {
            match sent {
                HolderSends::Client(message) => Self::tell(clouds, at, FromCloud::Holder(message)),
                HolderSends::Shuffler(message) => {
                    let Some(other) = &mut clouds[1 - at] else { continue };
                    let sent = other.shuffler.across(message).unwrap();
                    Self::shuffler_sends(clouds, 1 - at, sent);
                }
            }
        }
    }

    fn shuffler_sends(clouds: &mut [Option<Cloud>; 2], at: usize, sent: Vec<ShufflerSends>) {
        for sent in sent {
            match sent {
                ShufflerSends::Client(message) => {
                    Self::tell(clouds, at, FromCloud::Shuffler(message));
                }
                ShufflerSends::Holder(message) => {
                    let Some(other) = &mut clouds[1 - at] else { continue };
                    let sent = now(other.holder.level(message)).unwrap();
                    Self::holder_sends(clouds, 1 - at, sent);
                }
            }
        }
    }

    fn tell(clouds: &[Option<Cloud>; 2], at: usize, message: FromCloud) {
        if let Some(cloud) = &clouds[at] {
            let _it_is_gone = cloud.client.send(message);
        }
    }
}

/// What a store in memory never makes wait.
fn now<T>(work: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(work).poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("a store in memory makes nobody wait"),
    }
}

struct Way(Arc<TwoClouds>, usize);

#[async_trait]
impl MixCloud for Way {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        let Self(clouds, at) = self;
        let (client, mut tells) = mpsc::unbounded_channel();
        {
            let mut clouds = clouds.0.lock();
            let cloud = clouds[*at].get_or_insert_with(|| Cloud {
                holder: {
                    let store = Arc::new(MemoryStore::new());
                    now(Holder::open(opening.shape, &opening.point, store)).unwrap()
                },
                shuffler: Shuffler::new(opening.shape, &opening.point),
                session: 0,
                client: client.clone(),
            });
            if cloud.session >= opening.session {
                return Err(SessionError::Fenced);
            }
            (cloud.session, cloud.client) = (opening.session, client);
        }
        let (sender, mut asks) = mpsc::channel(64);
        let (out, receiver) = mpsc::channel(64);
        let (clouds, at, session) = (clouds.clone(), *at, opening.session);
        tokio::spawn(async move {
            while let Some(message) = asks.recv().await {
                clouds.comes(at, session, message);
            }
        });
        tokio::spawn(async move {
            while let Some(message) = tells.recv().await {
                if out.send(Ok(message)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Session { sender, receiver })
    }
}
