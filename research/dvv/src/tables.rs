//! The study as a document: description of the runs, the two tables, the two figures, and how to
//! read them.

use super::figures::FILES;
use super::outcome::{LoadOutcome, Study};
use load_generator::charts::short;
use load_generator::report::Percentiles;

/// Published figures of a mix: bytes of DVV and of version vectors, and values a key.
type Published = (&'static str, u32, u32, Option<[f64; 2]>);

const PUBLISHED: [Published; 5] = [
    ("60/10/30", 127, 790, Some([1.31, 1.34])),
    ("30/10/60", 123, 859, None),
    ("TPC-W browsing", 89, 159, None),
    ("TPC-W shopping", 82, 117, None),
    ("TPC-W ordering", 113, 682, None),
];

/// Goal: largest mean size of a DVV set's clock in compact form, bytes.
const GOAL_BYTES: f64 = 64.0;

/// Returns the whole document; `charts_in` is the charts' folder relative to the text.
pub fn markdown(study: &Study, charts_in: &str) -> String {
    let [theory, measured] = FILES;
    [
        description(study),
        goals(study),
        sizes(study),
        hot_key_table(study),
        causality(study),
        ratios(study),
        latencies(study),
        format!(
            "\n## Growth\n\n![in theory]({charts_in}{theory})\n\n\
             ![as measured]({charts_in}{measured})\n\n{}",
            growth(study)
        ),
        product(study),
    ]
    .concat()
}

fn description(study: &Study) -> String {
    let Study { seconds, clients, keys, seed, machine, credenza, .. } = study;
    format!(
        "# Version vectors, dotted version vectors, DVV sets\n\n\
         Again: `cargo run --release -p dvv -- --documents docs` (`--quick` for a short look).\n\n\
         The case study of Gonçalves and others (*Evaluating Dotted Version Vectors in Riak*, \
         INForum 2011), with three kinds of clock: **version vectors** of clients with Riak's \
         pruning (small_vclock 50, big_vclock 50, young_vclock 20 s, old_vclock 86,400 s), **DVV** \
         (a vector and a dot for each value) and **DVV sets** (this database's own code). Six \
         nodes, three replicas, R = W = 2, {keys} keys by Basho Bench's `truncated_pareto_int` \
         (2.7 % of all operations go to one key), {clients} closed-loop clients, an update is a \
         get, 50 ms and a put with the context read, a put alone has no context. Keys begin empty; \
         each run lasts {seconds} s; seed {seed}; every kind gets the same operations.\n\n\
         The nodes live in one process and in a time of their own, so that one seed gives one \
         result on every machine: a message takes 100 us, an exponential time of mean 50 us and 8 \
         ns a byte; a node does one thing at a time: 20 us to take a message in, 100 us to read a \
         row, 200 us to write one (and a write reads first). Latencies are in that time, \
         throughput is what it comes to. Only \"clock work\" is time of this machine ({}, {} \
         cores, {}; credenza {credenza}).\n\n\
         TPC-W's mixes are its shares of web interactions, each as what it does to a key (get / \
         put \
         / update: browsing 95.65 / 0.82 / 3.53, shopping 81.51 / 3.00 / 15.49, ordering 50.59 / \
         12.86 / 36.55); the paper does not say how it mapped them.\n\n\
         *Averages are over returned objects*: every get that found something counts once, so hot \
         keys count often. As Erlang terms an entry has 16 bytes and its id (4 of a client, 16 \
         of a \
         server), which is what the published sizes come to; for DVV all clocks of an object's \
         values are counted. *Tight* is what the same clock takes in this database's coding (for \
         version vectors: 8 bytes and the count), and for DVV sets it is the context as clients \
         carry it, before base 64.\n",
        machine.processor, machine.cores, machine.kernel
    )
}

/// Returns the results of each load: its kinds of clock, in the order they ran.
fn loads(study: &Study) -> impl Iterator<Item = &[LoadOutcome]> {
    study
        .outcomes
        .chunk_by(|one, next| (&one.mix, one.value_bytes) == (&next.mix, next.value_bytes))
}

fn outcome_of<'a>(load: &'a [LoadOutcome], kind: &str) -> Option<&'a LoadOutcome> {
    load.iter().find(|one| one.kind == kind)
}

const VECTORS: &str = "version vectors";
const DOTTED: &str = "DVV";
const SETS: &str = "DVV sets";

fn goals(study: &Study) -> String {
    let sets: Vec<_> = study.outcomes.iter().filter(|one| one.kind == SETS).collect();
    let worst = sets.iter().map(|one| one.coded.mean).fold(0.0, f64::max);
    let as_terms = sets.iter().map(|one| one.terms.mean).fold(0.0, f64::max);
    let wrong: usize = sets.iter().map(|one| one.false_values + one.lost).sum();
    let row = |what: &str, found: String, met: bool| {
        format!("| {what} | {found} | {} |\n", if met { "yes" } else { "**no**" })
    };
    let mut text = String::from("\n## Goals\n\n| what | found | reached |\n|---|--:|---|\n");
    text.push_str(&row(
        "DVV sets: at most 64 bytes on average per returned object, in every mix, as clients carry \
         them (*tight*; as Erlang terms, of which 127 were published for DVV, the second number)",
        format!("{worst:.1}; {as_terms:.0}"),
        worst <= GOAL_BYTES,
    ));
    text.push_str(&row(
        "DVV sets: no false conflict, no lost update",
        wrong.to_string(),
        wrong == 0,
    ));
    let end_ratio = |one: &&LoadOutcome| one.coded.last_tenth / one.coded.mean.max(1e-9);
    let most = sets.iter().map(end_ratio).fold(0.0, f64::max);
    text.push_str(&row(
        "DVV sets: the last tenth's clocks beside the whole run's, at most 1.1",
        format!("{most:.2}"),
        most <= 1.1,
    ));
    text
}

fn sizes(study: &Study) -> String {
    let mut text = String::from(
        "\n## Clock sizes and values\n\nBytes on average per returned object, p99 behind it; \
         published numbers in brackets.\n\n\
         | mix | value | version vectors | DVV | DVV sets | tight: version vectors | DVV | DVV \
         sets \
         | values: version vectors | DVV | DVV sets |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for load in loads(study) {
        let Some(first) = load.first() else { continue };
        let published = PUBLISHED.iter().find(|(mix, ..)| *mix == first.mix);
        text.push_str(&format!("| {} | {} |", first.mix, first.value_bytes));
        for (kind, known) in [
            (VECTORS, published.map(|(_, _, vectors, _)| *vectors)),
            (DOTTED, published.map(|(_, dotted, ..)| *dotted)),
            (SETS, None),
        ] {
            let known = known.map_or(String::new(), |known| format!(" [{known}]"));
            let cell = outcome_of(load, kind).map_or(String::new(), |one| {
                format!("{:.0} ({}){known}", one.terms.mean, one.terms.p99)
            });
            text.push_str(&format!(" {cell} |"));
        }
        for kind in [VECTORS, DOTTED, SETS] {
            let cell = outcome_of(load, kind)
                .map_or(String::new(), |one| format!("{:.1} ({})", one.coded.mean, one.coded.p99));
            text.push_str(&format!(" {cell} |"));
        }
        let values = published.and_then(|(.., values)| *values);
        for (kind, known) in
            [(VECTORS, values.map(|of| of[1])), (DOTTED, values.map(|of| of[0])), (SETS, None)]
        {
            let known = known.map_or(String::new(), |known| format!(" [{known}]"));
            let cell = outcome_of(load, kind)
                .map_or(String::new(), |one| format!("{:.3}{known}", one.values));
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    text.push_str(
        "\nOf the published sizes the two generic mixes agree within three tenths, and TPC-W's do \
         not: for version vectors 159, 117 and 682 bytes were published, where the same mixes come \
         to 2.4, 6.4 and 1.3 times that here. A vector grows with the clients that have written a \
         key, so theirs had met fewer: shopping writes four times as often as browsing, yet is \
         published with the shorter vectors. The paper gives neither the length of those runs nor \
         how interactions became operations, so we can't tell which of both it was, and compare \
         kinds of clock within one run only.\n",
    );
    text
}

/// Formats the table behind the averages: the hot key's part, the run's end, and the extremes.
fn hot_key_table(study: &Study) -> String {
    let mut text = String::from(
        "\nWithout the one hot key, and in the last tenth of the run (V: version vectors as Erlang \
         terms, S: DVV sets written tightly):\n\n\
         | mix | value | V, no hot key | S, no hot key | values V, no hot key | values S, no hot \
         key | V, last tenth | S, last tenth | longest V | longest S |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for load in loads(study) {
        let (Some(vectors), Some(sets)) = (outcome_of(load, VECTORS), outcome_of(load, SETS))
        else {
            continue;
        };
        text.push_str(&format!(
            "| {} | {} | {:.0} | {:.1} | {:.3} | {:.3} | {:.0} | {:.1} | {} | {} |\n",
            vectors.mix,
            vectors.value_bytes,
            vectors.terms.without_spike,
            sets.coded.without_spike,
            vectors.values_without_spike,
            sets.values_without_spike,
            vectors.terms.last_tenth,
            sets.coded.last_tenth,
            vectors.terms.max,
            sets.coded.max
        ));
    }
    text
}

fn causality(study: &Study) -> String {
    let mut text = String::from(
        "\n## Conflicts and losses\n\nEvery object returned is compared with what is true: the set \
         of writes its replicas have heard of, and of those that nothing has replaced. A *false \
         conflict* is a value shown that had been replaced; *lost* is a write missing that nothing \
         had replaced. Each is counted once. Riak's version vectors go wrong in three ways. A \
         pruned entry makes related values look concurrent, or a new write old. One vector stands \
         for all values of a key: where two rows are concurrent all their values stay, replaced \
         ones too, and with many clients on one key they pile up. And a client that writes a key \
         twice without reading it sends its count 1 again, so the second write is taken for the \
         first (lost *without context*).\n\n\
         | mix | value | kind | objects returned | with a false conflict | false conflicts | lost \
         | of them without context | values a key at the end |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for one in &study.outcomes {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.3} |\n",
            one.mix,
            one.value_bytes,
            one.kind,
            one.objects,
            one.false_reads,
            one.false_values,
            one.lost,
            one.lost_blind,
            one.values_at_end
        ));
    }
    text
}

/// Formats the second published table: the latencies of the other kinds, divided by those of
/// version vectors.
fn ratios(study: &Study) -> String {
    let mut text = String::from(
        "\n## Latency ratios\n\nDVV / version vectors, and DVV sets / version vectors: below 1 is \
         faster. A write of a dot has to be taken by a replica: half of the writes are passed on, \
         and the replica stores before it tells the others; under client ids any node tells all \
         three at once. That is the price on the writes' side, and what it is of a whole write \
         depends on how much else a write costs (the costs here are the study's; the database has \
         no version vectors to be measured beside). Published was 13 % for browsing and \
         shopping.\n\n\
         | mix | value | | get mean | get p95 | get p99 | put mean | put p95 | put p99 | \
         operations \
         |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for load in loads(study) {
        let Some(vectors) = outcome_of(load, VECTORS) else { continue };
        for one in load.iter().filter(|one| one.kind != VECTORS) {
            text.push_str(&format!("| {} | {} | {} |", one.mix, one.value_bytes, one.kind));
            for (ours, theirs) in [(&one.reads, &vectors.reads), (&one.writes, &vectors.writes)] {
                for (our, their) in quantiles(ours).into_iter().zip(quantiles(theirs)) {
                    text.push_str(&format!(" {:.2} |", our / their.max(1e-9)));
                }
            }
            text.push_str(&format!(" {:.2} |\n", one.throughput / vectors.throughput.max(1e-9)));
        }
    }
    text
}

fn quantiles(of: &Percentiles) -> [f64; 3] {
    [of.mean, of.p95, of.p99]
}

fn latencies(study: &Study) -> String {
    let mut text = String::from(
        "\nThe latencies themselves (milliseconds of the study's own time: mean / p95 / p99), and \
         this machine's time for the clocks alone (microseconds of a get, of a put):\n\n\
         | mix | value | kind | operations/s | get | put | clock work, get | clock work, put |\n\
         |---|--:|---|--:|--:|--:|--:|--:|\n",
    );
    let three =
        |of: &Percentiles| quantiles(of).map(|us| format!("{:.1}", us / 1000.0)).join(" / ");
    for one in &study.outcomes {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |\n",
            one.mix,
            one.value_bytes,
            one.kind,
            short(one.throughput),
            three(&one.reads),
            three(&one.writes),
            one.work_us[0],
            one.work_us[1]
        ));
    }
    text
}

/// Formats the second figure as a table.
fn growth(study: &Study) -> String {
    let Some(load) = loads(study).next() else { return String::new() };
    let Some(first) = load.first() else { return String::new() };
    let mut text = format!(
        "Mean clock of the objects returned in one second, {}, {} bytes (Erlang terms; DVV sets \
         also \
         tight):\n\n| second | version vectors | DVV | DVV sets | tight |\n|--:|--:|--:|--:|--:|\n",
        first.mix, first.value_bytes
    );
    let seconds = first.growth.len();
    let shown = [1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300, 600, 1200];
    for second in shown.into_iter().filter(|second| *second <= seconds) {
        let at =
            |kind: &str| outcome_of(load, kind).and_then(|one| one.growth.get(second - 1).copied());
        let [vectors, dotted, sets] =
            [VECTORS, DOTTED, SETS].map(|kind| at(kind).unwrap_or_default());
        text.push_str(&format!(
            "| {second} | {:.0} | {:.0} | {:.0} | {:.1} |\n",
            vectors[0], dotted[0], sets[0], sets[1]
        ));
    }
    text
}

fn product(study: &Study) -> String {
    let Some(first) = study.product.first() else { return String::new() };
    let mut text = format!(
        "\n## The database itself\n\nThe same mixes for {:.0} s each on six nodes, processes on \
         this \
         machine ({} cores for all of them and the load), over Riak's HTTP interface with `r=2` \
         and \
         `w=2`: {} clients, a bucket for each mix. Latencies are real, of writes synced to disk \
         before they are answered. *Clock* is the context in `X-Riak-Vclock`, which in base 64 \
         is a \
         third longer.\n\n\
         | mix | value | operations/s | get ms (mean / p95 / p99) | put ms | clock bytes (p99) | \
         values | objects returned | failed |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        first.seconds, study.machine.cores, study.clients
    );
    let three =
        |of: &Percentiles| quantiles(of).map(|us| format!("{:.1}", us / 1000.0)).join(" / ");
    for one in &study.product {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {:.1} ({}) | {:.3} | {} | {} |\n",
            one.mix,
            one.value_bytes,
            short(one.throughput),
            three(&one.reads),
            three(&one.writes),
            one.clock_mean,
            one.clock_p99,
            one.values,
            one.objects,
            one.failed
        ));
    }
    text
}
