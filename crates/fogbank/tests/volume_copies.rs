//! Volumes of every engine that needs one store, from one end to the other: verified, backed up,
//! restored. Cut short anywhere, a restore is no volume, and what it was made of stays.

#![allow(clippy::unwrap_used)] // helpers of tests, too

mod spoil;

use std::path::Path;
use std::sync::Arc;

use bytesize::ByteSize;
use fogbank::args::VolumeShapeArgs;
use fogbank::backup::back_up;
use fogbank::volume::{Flags, Flow, OpenedStore, Volume, VolumeConfig, VolumeEngine};
use fogbank::{AtRest, Error, OpenOptions, Place};
use fogbank_durable::BackupReader;
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::{Access, Address, ImmediateEngine, Scanned};
use fogbank_seal::MasterKey;
use fogbank_store::{Fault, Faulty, MemoryStore, Store};
use spoil::spoil;

const ENGINES: [&str; 3] = ["tao", "partition", "ring"];
const BLOCKS: u32 = 64;

fn config(engine: &str) -> VolumeConfig {
    let args = VolumeShapeArgs {
        size: ByteSize(u64::from(BLOCKS) * 512),
        block: ByteSize(512),
        engine: VolumeEngine::named(engine).unwrap(),
        second_store: None,
        flags: Flags::default(),
    };
    VolumeConfig::new(&args, "file:///x").unwrap()
}

fn key(place: &Place) -> MasterKey {
    let mut unused = Randomness::repeatable(0).stream(Purpose::MasterKey);
    fogbank_seal::load_or_create(&place.data.join("proxy/key"), &mut unused, false).unwrap()
}

/// What every third block holds; all others hold zeros.
fn value(block: u32) -> Vec<u8> {
    if block.is_multiple_of(3) { vec![block as u8 + 1; 512] } else { vec![0; 512] }
}

async fn write(engine: &dyn ImmediateEngine) {
    let write = |block| {
        let bytes = value(block).into();
        engine.submit(Address(block), Access::Write { offset: 0, bytes })
    };
    for ticket in (0..BLOCKS).step_by(3).map(write).collect::<Vec<_>>() {
        ticket.await.unwrap();
    }
}

/// What a scan hands over is what was written.
#[derive(Default)]
struct Right(u32);

impl Scanned for Right {
    fn block(&mut self, address: Address, found: &[u8]) -> fogbank_oram::Result<()> {
        assert_eq!(found, value(address.0), "{address:?}");
        self.0 += 1;
        Ok(())
    }

    fn progress(&mut self, _: u32, _: u32) {}
}

async fn is_right(mut volume: AtRest) {
    let mut right = Right::default();
    volume.scan(&mut right).await.unwrap();
    assert_eq!(right.0, BLOCKS);
    volume.close().await.unwrap();
}

async fn opened(options: OpenOptions) -> Result<AtRest, Error> {
    OpenedStore::open(options.existing()).await?.rest().await
}

/// A volume with something in it under `folder`, and a backup of it.
async fn backed_up(engine: &str, folder: &Path) -> (Place, Vec<u8>) {
    let place = Place::local(folder.join("old"));
    Volume::create(place.clone(), &config(engine)).await.unwrap();
    let volume = Volume::open(place.clone(), Flow::default()).await.unwrap();
    write(&*volume.engine()).await;
    volume.close().await.unwrap();
    let mut resting = opened(OpenOptions::new(place.clone())).await.unwrap();
    let (master, random) = (key(&place), Randomness::repeatable(1));
    let file = back_up(&mut resting, Vec::new(), &master, &random, &mut |_, _| {}).await.unwrap();
    resting.close().await.unwrap();
    (place, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_volume_holds_the_same_and_has_a_key_of_its_own() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (old, file) = backed_up(engine, folder.path()).await;
        // Blocks of zeros are not in it.
        let held = 512 * BLOCKS as usize / 3;
        assert!((held..held + 2048).contains(&file.len()), "{engine}: {}", file.len());
        let new = Place::local(folder.path().join("new"));
        let backup = BackupReader::open(&file[..], &key(&old)).unwrap();
        let options = OpenOptions::new(new.clone());
        options.clone().restore(backup, &mut |_, _| {}).await.unwrap();
        is_right(opened(options).await.unwrap()).await;
        is_right(opened(OpenOptions::new(old.clone())).await.unwrap()).await;
        let keys = [&old, &new].map(|place| std::fs::read(place.data.join("proxy/key")).unwrap());
        assert_ne!(keys[0], keys[1]);
        // A volume keeps its size, and is not restored over another.
        let capacity = Some(9);
        for (place, capacity, word) in [
            (&new, None, "another --data"),
            (&Place::local(folder.path().join("n")), capacity, "--capacity"),
        ] {
            let backup = BackupReader::open(&file[..], &key(&old)).unwrap();
            let shape = fogbank::args::ShapeArgs { capacity, ..Default::default() };
            let options = OpenOptions::new(place.clone()).shape(shape);
            let refused = options.restore(backup, &mut |_, _| {}).await.unwrap_err();
            assert!(refused.to_string().contains(word), "{engine}: {refused}");
        }
        assert!(!folder.path().join("n").exists());
    }
}

/// A cloud that changes a byte of what it holds is found by reading all of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_is_found() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (place, _) = backed_up(engine, folder.path()).await;
        let spoiled = spoil(&place.data.join("cloud"));
        assert!(spoiled > 0, "{engine}");
        let found = match opened(OpenOptions::new(place)).await {
            Err(found) => found,
            Ok(mut resting) => resting.scan(&mut Right::default()).await.unwrap_err(),
        };
        assert!(matches!(found, Error::CloudLied(_)), "{engine}: {found}");
    }
}

/// The process that restores dies at any call to the cloud: what is there is no volume that anybody
/// opens, and the same again, elsewhere, is whole.
#[tokio::test(start_paused = true)]
async fn a_restore_that_is_cut_short_is_no_volume() {
    for engine in ["tao", "partition"] {
        let folder = tempfile::tempdir().unwrap();
        let (old, file) = backed_up(engine, folder.path()).await;
        let master = key(&old);
        for dies in 1.. {
            let place = Place::local(folder.path().join(format!("new-{dies}")));
            let fault = [Fault::Before, Fault::After, Fault::Partly(2)][dies as usize % 3];
            let cloud = Arc::new(MemoryStore::new());
            let dying = Arc::new(Faulty::dying(cloud.clone(), dies, fault)) as Arc<dyn Store>;
            let backup = BackupReader::open(&file[..], &master).unwrap();
            let options = OpenOptions::new(place.clone());
            let restored = options.clone().on(dying).restore(backup, &mut |_, _| {}).await;
            let again = opened(options.on(cloud)).await;
            if restored.is_ok() {
                is_right(again.unwrap()).await;
                assert!(dies > 10, "{engine}: {dies} calls are no restore");
                break;
            }
            let told = again.err().unwrap();
            let is_told = match &told {
                Error::CannotUse(why) => why.contains("not filled to its end"),
                // It died before anything of it was made.
                Error::Usage(_) => !place.data.exists() || place.data.join("proxy").exists(),
                _ => false,
            };
            assert!(is_told, "{engine} at {dies}: {told}");
        }
    }
}
