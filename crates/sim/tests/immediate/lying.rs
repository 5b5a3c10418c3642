//! One of two clouds lies to the other, and then does what it can not to be told by name: it breaks its
//! own session, opens none any more, or takes nothing from the other, whose session ends for that.

use fogbank_mix::session::SessionError;
use fogbank_oram::Error;

use super::clouds::Liar;
use super::engines::{Kind, World};
use super::history::{History, Workload};

#[tokio::test(start_paused = true)]
async fn whoever_has_lied_is_told_by_name_whatever_it_does_then() {
    let ends = [
        SessionError::Absent("it has gone".into()),
        SessionError::Refused("it does not want that".into()),
        SessionError::Misbehaved("it is confused".into()),
        SessionError::Fenced,
    ];
    for (cloud, name) in [(0, "the first cloud has lied"), (1, "the second cloud has lied")] {
        for (then, refuses) in ends.iter().flat_map(|end| [(end, false), (end, true)]) {
            let world = World::new(Kind::Multicloud);
            let (mut history, mut work) = (History::new(), Workload::new(5));
            let engine = world.open(world.cloud.clone()).await.unwrap();
            history.run(&*engine, &mut work, 40).await.unwrap();
            world.clouds.has_liar(Liar { cloud, then: then.clone(), refuses });
            let told = history.run(&*engine, &mut work, 40).await;
            let is_named =
                matches!(&told, Err(Error::CloudLied(why)) if why.to_string().contains(name));
            assert!(is_named, "{then:?}, {refuses}: {told:?}");
        }
    }
}
