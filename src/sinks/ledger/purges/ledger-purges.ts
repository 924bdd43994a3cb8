import { hostname } from 'node:os';
import { grouped } from '../../../core/grouped.ts';
import { instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Tx } from '../../../sql/database.ts';
import {
  purgedName,
  type PurgedKeys,
  type PurgedOf,
  type PurgedRecord,
  type PurgeEnd,
  type PurgeRequest,
  type Purges,
} from '../../purges.ts';
import { checkWhole, noRun } from '../acquire.ts';
import { noteAction } from '../actions.ts';
import { storedIdentity } from '../connectors.ts';
import type { Taken } from '../driver.ts';
import { long, type Ledger } from '../ledger.ts';
import { completeSteps, noteSteps, readSteps } from './complete-steps.ts';
import { countExpired, expireRows } from './expire-rows.ts';
import { findBelow, type FoundOf, type FoundRecords } from './find-below.ts';
import { ensureSeal, writeNotes } from './purge-notes.ts';
import { countFound, filesOf, removeFound } from './remove-found.ts';

/** Records that a transaction removes, without those below them. */
const keysAtOnce = 500;

/** `Purges` of a sink. */
export function ledgerPurges(ledger: Ledger): Purges {
  return {
    look: async (connector, of) => {
      const counts: PurgedOf[] = [];
      const counted: Counted = new Map();
      for (const { entity, keyTexts } of of) {
        for (const batch of batchesOf(keyTexts)) {
          counts.push(
            ...(await ledger.db.read(async (tx) => {
              const purging = { tx, records: ledger.records, connector };
              const found = await findBelow(purging, entity, batch);
              return await countFound(purging, withoutCounted(found, counted));
            })),
          );
        }
      }
      return addUpPurged(counts);
    },
    purge: async (connector, request) =>
      await holding(ledger, connector, async (taken) => await purge(ledger, taken, request)),
    complete: async (connector) => {
      const left = await ledger.db.read(async (tx) => await readSteps(tx, connector));
      if (left.length === 0) return [];
      return await holding(ledger, connector, async (taken) => await completeSteps(ledger, taken));
    },
    expired: async (connector, asked) => await countExpired(ledger, connector, asked),
    expire: async (connector, asked) =>
      await holding(ledger, connector, async (taken) => await expireRows(ledger, taken, asked)),
  };
}

/** Holds the connector meanwhile; files that a killed run left open are closed first. */
export async function holding<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  work: (taken: Taken) => Promise<Result>,
): Promise<Result> {
  const since = instant(ledger.clock.now());
  const holder = { pid: process.pid, host: hostname(), command: `purge of ${connector}`, since };
  const taken = await ledger.take(connector, holder, async (tx) => {
    await checkWhole(tx, connector);
    await ledger.lines?.recover(tx, connector);
  });
  try {
    return await work(taken);
  } finally {
    await taken.release();
  }
}

async function purge(ledger: Ledger, taken: Taken, request: PurgeRequest): Promise<PurgeEnd> {
  const { connector } = taken;
  const { who } = ledger;
  const at = instant(ledger.clock.now());
  const seal = await taken.inTurn(
    async () =>
      await taken.transact(noRun, async (tx) => {
        if ((await storedIdentity(tx, connector)) === undefined) throw nothingStored(connector);
        return await ensureSeal(tx, connector);
      }),
  );
  const counts: PurgedOf[] = [];
  const purged = new Map<string, PurgedRecord>();
  for (const asked of request.of) {
    if (asked.keyTexts.length === 0) continue;
    const of = await purgeOf(ledger, taken, { ...request, ...asked, at, seal });
    counts.push(...of.counts);
    for (const one of of.records) purged.set(one.hmac, one);
  }
  const left = await completeSteps(ledger, taken);
  return { at, who, entities: addUpPurged(counts), records: [...purged.values()], left, seal };
}

type Asked = PurgedKeys & Omit<PurgeRequest, 'of'> & Pick<PurgeEnd, 'at' | 'seal'>;

/** Of one entity, with what lies below; what follows the rows is noted as work. */
async function purgeOf(ledger: Ledger, taken: Taken, request: Asked) {
  const { connector } = taken;
  const { records, who } = ledger;
  const { entity, keyTexts, canReturn, at, seal } = request;
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await taken.inTurn(async () => await taken.transact(noRun, work, long));
  const counts: PurgedOf[] = [];
  const purged = new Map<string, PurgedRecord>();
  const asked = new Set(keyTexts);
  for (const batch of batchesOf(keyTexts)) {
    request.signal.throwIfAborted();
    // Before the rows: while they are there, a purge that is repeated finds the files.
    const files = await taken.read(async (tx) => {
      const purging = { tx, records, connector };
      return await allFiles(purging, await findBelow(purging, entity, batch));
    });
    for (const { entity: of, file } of files) await request.removeFile(of, file);
    const removed = await transact(async (tx) => {
      const purging = { tx, records, connector };
      const found = await findBelow(purging, entity, batch);
      const of = await removeFound(purging, found);
      const notes = [...found.of.values()].flatMap((one) =>
        [...one.keyTexts].map((keyText) => ({
          entity: one.entity,
          mac: Buffer.from(seal.sign(purgedName(one.entity, keyText)), 'hex'),
          asked: Number(one.entity === entity && asked.has(keyText)),
        })),
      );
      const seq = await ledger.newestSeq(tx, connector);
      await writeNotes(tx, { connector, notes, seq, at, who, canReturn });
      const touched = of.filter(
        ({ rows, quarantined, listings, files }) => rows + quarantined + listings + files > 0,
      );
      await noteSteps(tx, ledger, { connector, entities: touched.map((one) => one.entity), since: at });
      return { of, notes };
    });
    counts.push(...removed.of);
    for (const { entity: of, mac } of removed.notes) {
      const hmac = mac.toString('hex');
      purged.set(hmac, { entity: of, hmac });
    }
  }
  const rows = counts.reduce((sum, one) => sum + one.rows, 0);
  const detail = { records: purged.size, rows, canReturn };
  await transact(async (tx) => {
    noteAction(tx, ledger, { action: 'purge', connector, entity, detail });
    return Promise.resolve();
  });
  return { counts, records: purged.values() };
}

/** By entity what was found before: keys of records, and listings. */
type Counted = Map<EntityName, { readonly keyTexts: Set<string>; readonly listings: Set<number> }>;

/** What a later part of a purge does not find, because an earlier one has removed it. */
function withoutCounted(found: FoundRecords, counted: Counted): FoundRecords {
  const of = [...found.of].map(([entity, one]): [EntityName, FoundOf] => {
    const known = counted.get(entity) ?? { keyTexts: new Set(), listings: new Set() };
    counted.set(entity, known);
    const fresh = {
      ...one,
      rows: new Map([...one.rows].filter(([, { keyText }]) => !known.keyTexts.has(keyText))),
      keyTexts: new Set([...one.keyTexts].filter((keyText) => !known.keyTexts.has(keyText))),
      listings: one.listings.filter(({ id }) => !known.listings.has(id)),
    };
    for (const keyText of one.keyTexts) known.keyTexts.add(keyText);
    for (const { id } of one.listings) known.listings.add(id);
    return [entity, fresh];
  });
  return { ...found, of: new Map(of) };
}

async function allFiles(
  purging: Parameters<typeof filesOf>[0],
  found: FoundRecords,
): Promise<readonly { readonly entity: EntityName; readonly file: string }[]> {
  const files: { readonly entity: EntityName; readonly file: string }[] = [];
  for (const one of found.of.values()) {
    for (const file of await filesOf(purging, one)) files.push({ entity: one.entity, file });
  }
  return files;
}

/** Of each entity the sum, in the order in which they first come. */
function addUpPurged(counts: readonly PurgedOf[]): readonly PurgedOf[] {
  return [...grouped(counts, ({ entity }) => entity)].map(([entity, all]) => {
    const sum = (of: (one: PurgedOf) => number): number => all.reduce((total, one) => total + of(one), 0);
    return {
      entity,
      rows: sum(({ rows }) => rows),
      quarantined: sum(({ quarantined }) => quarantined),
      files: sum(({ files }) => files),
      listings: sum(({ listings }) => listings),
    };
  });
}

function* batchesOf(keyTexts: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < keyTexts.length; at += keysAtOnce) yield keyTexts.slice(at, at + keysAtOnce);
}

function nothingStored(connector: ConnectorName) {
  return usage(`The sink holds nothing of connector "${connector}", so there is nothing to purge.`);
}
