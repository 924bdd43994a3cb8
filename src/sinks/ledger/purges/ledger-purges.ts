import { hostname } from 'node:os';
import { grouped } from '../../../core/grouped.ts';
import { instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Tx } from '../../../sql/database.ts';
import type { ExpireRequest, PurgedKeys, PurgedOf, PurgeEnd, PurgeRequest, PurgeWork } from '../../purges.ts';
import { checkWhole, holding } from '../acquire.ts';
import { noteAction } from '../actions.ts';
import { storedIdentity } from '../connectors.ts';
import type { Taken } from '../driver.ts';
import { long, noRun, type Ledger } from '../ledger.ts';
import { completeSteps, dropWork, noteSteps, readSteps } from './complete-steps.ts';
import { countExpired, expireRows } from './expire-rows.ts';
import { findBelow, type FoundOf, type FoundRecords } from './find-below.ts';
import { ensureMac, writeNotes, type RecordMac } from './purge-notes.ts';
import { countFound, filesOf, removeFound } from './remove-found.ts';

/** Records that a transaction removes, without those below them. */
const keysAtOnce = 500;

/** Removes records for good, with all that the sink holds of them and of the records below them. */
export function ledgerPurges(ledger: Ledger) {
  return {
    /** What a purge of these records would remove. Takes no lock and writes nothing. */
    look: async (connector: ConnectorName, of: PurgeRequest['of']): Promise<readonly PurgedOf[]> => {
      const counts: PurgedOf[] = [];
      const counted: Counted = new Map();
      for (const asked of of) {
        for (const batch of batchesOf(asked)) {
          counts.push(
            ...(await ledger.db.read(async (tx) => {
              const purging = { tx, records: ledger.records, connector };
              const found = await findBelow(purging, batch);
              return shownOf(await countFound(purging, withoutCounted(found, counted)), batch);
            })),
          );
        }
      }
      return addUpPurged(counts);
    },
    /**
     * Removes the records, batch by batch, each in one transaction with the notes that keep the next sync from storing
     * them again. Repeated after a kill it removes the rest. Takes the connector. Throws `ConnectorBusyError`, and
     * USAGE where the sink holds nothing of the connector.
     */
    purge: async (connector: ConnectorName, request: PurgeRequest) =>
      await purging(ledger, connector, async (taken) => await purge(ledger, taken, request)),
    /**
     * Does what a purge has left to do: rewrites lines, gives freed space back. Gives the steps that could not be done
     * now, with the reason. Takes the connector only where there is something to do.
     */
    complete: async (connector: ConnectorName) => {
      const left = await ledger.db.read(async (tx) => await readSteps(tx, connector));
      if (left.length === 0) return [];
      return await purging(ledger, connector, async (taken) => await completeSteps(ledger, taken));
    },
    /** Notes that this work is done. What a purge has noted meanwhile stays. Takes no lock. */
    noteDone: async (work: readonly PurgeWork[]) =>
      await ledger.db.transact(async (tx) => await dropWork(tx, work)),
    /** What `expire` would remove. Takes no lock and writes nothing. */
    expired: async (connector: ConnectorName, asked: Pick<ExpireRequest, 'entities' | 'isAsked'>) =>
      await countExpired(ledger, connector, asked),
    /** Removes what is too old. Takes the connector. Throws `ConnectorBusyError`. */
    expire: async (connector: ConnectorName, asked: ExpireRequest) =>
      await purging(ledger, connector, async (taken) => await expireRows(ledger, taken, asked)),
  };
}

/** Holds the connector meanwhile. */
export async function purging<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  work: (taken: Taken) => Promise<Result>,
): Promise<Result> {
  const since = instant(ledger.clock.now());
  const holder = { pid: process.pid, host: hostname(), command: `purge of ${connector}`, since };
  const check = async (tx: Tx): Promise<void> => {
    await checkWhole(tx, connector);
    await ledger.lines?.check(tx, connector);
  };
  return await holding(ledger, connector, { holder, check }, work);
}

async function purge(ledger: Ledger, taken: Taken, request: PurgeRequest): Promise<PurgeEnd> {
  const { connector } = taken;
  const { who } = ledger;
  const at = instant(ledger.clock.now());
  const macOf = await taken.inTurn(
    async () =>
      await taken.transact(noRun, async (tx) => {
        if ((await storedIdentity(tx, connector)) === undefined) throw nothingStored(connector);
        return await ensureMac(tx, connector);
      }),
  );
  const counts: PurgedOf[] = [];
  const noted = new Set<string>();
  for (const asked of request.of) {
    const of = await purgeOf(ledger, taken, { ...request, ...asked, at, macOf });
    counts.push(...of.counts);
    for (const mac of of.noted) noted.add(mac);
  }
  // Also where nothing was stored: what was published may hold it.
  const entities = [
    ...new Set([...request.of.map(({ entity }) => entity), ...counts.map((one) => one.entity)]),
  ];
  const steps = { connector, entities, targets: request.targets };
  await taken.inTurn(
    async () => await taken.transact(noRun, async (tx) => await noteSteps(tx, ledger, steps)),
  );
  const left = await completeSteps(ledger, taken);
  return { at, who, entities: addUpPurged(counts), records: noted.size, left };
}

type Asked = PurgedKeys & Omit<PurgeRequest, 'of'> & Pick<PurgeEnd, 'at'> & { readonly macOf: RecordMac };

/** Of one entity, with what lies below; what follows the rows is noted as work. */
async function purgeOf(ledger: Ledger, taken: Taken, request: Asked) {
  const { connector } = taken;
  const { records, who } = ledger;
  const { entity, keyTexts, canReturn, at, macOf } = request;
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await taken.inTurn(async () => await taken.transact(noRun, work, long));
  const counts: PurgedOf[] = [];
  const noted = new Set<string>();
  const asked = new Set(keyTexts);
  for (const batch of batchesOf(request)) {
    request.signal.throwIfAborted();
    // Before the rows: while they are there, a purge that is repeated finds the files.
    const files = await taken.read(async (tx) => {
      const purging = { tx, records, connector };
      return await allFiles(purging, await findBelow(purging, batch));
    });
    for (const { entity: of, file } of files) await request.removeFile(of, file);
    const removed = await transact(async (tx) => {
      const purging = { tx, records, connector };
      const found = await findBelow(purging, batch);
      const of = await removeFound(purging, found);
      const named = [...found.of.values()].flatMap((one) =>
        [...one.keyTexts].map((name) => ({ entity: one.entity, name, isAsked: asked.has(name) })),
      );
      const refused = of.flatMap((one) =>
        one.refused.map((name) => ({ entity: one.entity, name, isAsked: true })),
      );
      const notes = [...named, ...refused].map((one) => ({
        entity: one.entity,
        mac: Buffer.from(macOf(one.entity, one.name), 'hex'),
        asked: Number(one.entity === entity && one.isAsked),
      }));
      const seq = await ledger.newestSeq(tx, connector);
      await writeNotes(tx, { connector, notes, seq, at, who, canReturn });
      const touched = of.filter(
        ({ rows, quarantined, listings, files }) => rows + quarantined + listings + files > 0,
      );
      const { targets } = request;
      const steps = { connector, entities: touched.map((one) => one.entity), targets };
      await noteSteps(tx, ledger, steps, ledger.lines === undefined ? ['space'] : ['lines', 'space']);
      return { of, notes };
    });
    counts.push(...shownOf(removed.of, batch));
    for (const { mac } of removed.notes) noted.add(mac.toString('hex'));
  }
  const rows = counts.reduce((sum, one) => sum + one.rows, 0);
  const detail = { records: noted.size, rows, canReturn };
  if (noted.size === 0) return { counts, noted };
  await transact(async (tx) => {
    noteAction(tx, ledger, { action: 'purge', connector, entity, detail });
    return Promise.resolve();
  });
  return { counts, noted };
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

/** Nothing of an entity of which nothing was chosen. */
function shownOf(counts: readonly PurgedOf[], { keyTexts }: PurgedKeys): readonly PurgedOf[] {
  return keyTexts.length > 0 ? counts : counts.filter(({ quarantined }) => quarantined > 0);
}

/** What is meant in quarantine belongs to the first. */
function* batchesOf({ entity, keyTexts, isRefusedMeant }: PurgedKeys): Generator<PurgedKeys> {
  const end = Math.max(keyTexts.length, isRefusedMeant === undefined ? 0 : 1);
  for (let at = 0; at < end; at += keysAtOnce) {
    const some = keyTexts.slice(at, at + keysAtOnce);
    yield { entity, keyTexts: some, isRefusedMeant: at === 0 ? isRefusedMeant : undefined };
  }
}

function nothingStored(connector: ConnectorName) {
  return usage(`The sink holds nothing of connector "${connector}", so there is nothing to purge.`);
}
