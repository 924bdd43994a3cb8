import type { Instant } from '../../../core/clock.ts';
import { SyncError } from '../../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { purgedName, type LeftStep, type PurgeStep } from '../../purges.ts';
import { noRun } from '../acquire.ts';
import type { RewrittenLines, Taken } from '../driver.ts';
import { hasTable } from '../has-table.ts';
import { long, type Ledger } from '../ledger.ts';
import { storedTable } from '../tables.ts';
import { versionedEntities } from '../versions/versions.ts';
import { versionsName } from '../../records/version-names.ts';
import { ensureSeal, readNotes } from './purge-notes.ts';

interface StepRow {
  readonly step: PurgeStep;
  readonly entity: EntityName;
  readonly since: Instant;
}

/** What purges of the connector have left to do. */
export async function readSteps(tx: Tx, connector: ConnectorName): Promise<readonly StepRow[]> {
  if (!(await hasTable(tx, '_sync_purge_work'))) return [];
  return await tx.rows<StepRow>(
    `SELECT step, entity, since FROM _sync_purge_work WHERE connector = :connector ORDER BY step, entity`,
    { connector },
  );
}

/** In the transaction that removes the rows of these entities. */
export async function noteSteps(
  tx: Tx,
  ledger: Pick<Ledger, 'lines'>,
  {
    connector,
    entities,
    since,
  }: { readonly connector: ConnectorName; readonly entities: readonly EntityName[]; readonly since: Instant },
  steps: readonly PurgeStep[] = ledger.lines === undefined ? ['space'] : ['lines', 'space'],
): Promise<void> {
  const v = steps.flatMap((step) => entities.map((entity) => ({ step, entity })));
  if (v.length === 0) return;
  await tx.run(
    `INSERT INTO _sync_purge_work (connector, step, entity, since)
     SELECT CAST(:connector AS text), v.step, v.entity, CAST(:since AS text)
     FROM {v: step text, entity text, n} ORDER BY v.n
     ON CONFLICT (connector, step, entity) DO NOTHING`,
    { connector, since, v },
  );
}

/** Lines first: their removal writes to the database whose space is given back. What fails stays noted. */
export async function completeSteps(ledger: Ledger, taken: Taken): Promise<readonly LeftStep[]> {
  const { connector } = taken;
  const steps = await taken.read(async (tx) => await readSteps(tx, connector));
  for (const one of steps.filter(({ step }) => step === 'lines')) {
    await removeLines(ledger, taken, one.entity);
    await done(taken, [one]);
  }
  const space = steps.filter(({ step }) => step === 'space');
  if (space.length === 0) return [];
  try {
    const versioned = await taken.read(async (tx) => await versionedEntities(tx, connector));
    const tables = space.flatMap(({ entity }) => {
      const name = ledger.records.tableName(connector, entity);
      return versioned.has(entity) ? [name, versionsName(name)] : [name];
    });
    await ledger.giveBack(tables);
    await done(taken, space);
    return [];
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return space.map((one) => ({ ...one, why: error.message }));
  }
}

async function done(taken: Taken, steps: readonly StepRow[]): Promise<void> {
  const { connector } = taken;
  await taken.inTurn(
    async () =>
      await taken.transact(noRun, async (tx) => {
        for (const { step, entity } of steps) {
          await tx.run(
            `DELETE FROM _sync_purge_work WHERE connector = :connector AND step = :step AND entity = :entity`,
            { connector, step, entity },
          );
        }
      }),
  );
}

/** File by file, each in one transaction. */
async function removeLines(ledger: Ledger, taken: Taken, entity: EntityName): Promise<void> {
  const { connector } = taken;
  const { lines } = ledger;
  if (lines === undefined) return;
  const { table, seal, notes } = await taken.inTurn(
    async () =>
      await taken.transact(noRun, async (tx) => ({
        table: await storedTable(tx, { connector, entity }),
        seal: await ensureSeal(tx, connector),
        notes: await readNotes(tx, connector),
      })),
  );
  if (table === undefined) return;
  const seqs = new Map(
    notes.flatMap((note) => (note.entity === entity ? [[note.mac.toString('hex'), note.seq] as const] : [])),
  );
  const line: RewrittenLines['line'] = (written, { keyText, seq }) =>
    seq <= (seqs.get(seal.sign(purgedName(entity, keyText))) ?? -1) ? null : written;
  await lines.rewrite({ connector, table, line }, async (work) => {
    await taken.inTurn(async () => await taken.transact(noRun, work, long));
  });
}
