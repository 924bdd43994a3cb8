import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Tx } from '../../../sql/database.ts';
import type { MaskEnd, MaskRequest, RewrittenOf } from '../../masks.ts';
import { noteAction } from '../actions.ts';
import { storedIdentity } from '../connectors.ts';
import { wholeTables } from '../tables.ts';
import type { Taken } from '../driver.ts';
import { outsideRun, type Ledger } from '../ledger.ts';
import { nothingOlder, readMasks } from '../masks.ts';
import { completeSteps, noteSteps } from '../purges/complete-steps.ts';
import { purging } from '../purges/ledger-purges.ts';
import { maskLines } from './mask-lines.ts';
import { maskRows, maskVersions } from './mask-rows.ts';
import { hideTexts } from './hide-texts.ts';
import { maskFiles, maskQuarantined } from './mask-notes.ts';
import type { Rewriting } from './rewriting.ts';

/** Brings what is stored from before a mask under it, wherever that is and whether a read reaches it or not. */
export function ledgerMasking(ledger: Ledger) {
  return {
    /** What `rewrite` would rewrite. Takes no lock and writes nothing. Throws USAGE as `rewrite`. */
    look: async (connector: ConnectorName, asked: MaskRequest) =>
      await rewriteAll(lookingAt(ledger, connector, asked), asked, ledger),
    /**
     * Rewrites rows, versions, quarantine, names of files, lines and reports, batch by batch, each in one transaction.
     * Change numbers and times stay. Repeated after a kill it rewrites the rest. Takes the connector. Throws
     * `ConnectorBusyError`, and USAGE where the sink holds nothing of the connector or no sync has used one of the
     * masks yet.
     */
    rewrite: async (connector: ConnectorName, asked: MaskRequest): Promise<MaskEnd> =>
      await purging(ledger, connector, async (taken) => {
        const entities = await rewriteAll(holdingIt(ledger, taken, asked), asked, ledger);
        await outsideRun(taken, async (tx) => {
          await nothingOlder(tx, connector, asked.masks);
          const rows = entities.reduce((sum, one) => sum + one.rows + one.versions, 0);
          noteAction(tx, ledger, { action: 'purge', connector, detail: { isUnmasked: true, rows } });
          // Also where nothing was rewritten: what was published may be from before.
          const masked = asked.masks.map(({ entity }) => entity);
          await noteSteps(tx, ledger, { connector, entities: masked, targets: asked.targets });
        });
        return { entities, left: await completeSteps(ledger, taken) };
      }),
  };
}

function lookingAt(ledger: Ledger, connector: ConnectorName, { signal }: MaskRequest): Rewriting {
  const { records, lines } = ledger;
  return {
    connector,
    records,
    signal,
    read: async (work) => await ledger.db.read(work),
    step: async (find) => await ledger.db.read(find),
    lines: async (rewritten) => (await lines?.rewrite(rewritten, null))?.changed ?? 0,
    renameFile: () => Promise.resolve(),
  };
}

function holdingIt(ledger: Ledger, taken: Taken, { signal, renameFile, targets }: MaskRequest): Rewriting {
  const { records, lines } = ledger;
  const { connector } = taken;
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await outsideRun(taken, work);
  return {
    connector,
    records,
    signal,
    read: async (work) => await taken.read(work),
    step: async (find, write, entity) =>
      await transact(async (tx) => {
        const found = await find(tx);
        if (found.count === 0) return found;
        await write(tx, found);
        await noteSteps(tx, ledger, { connector, entities: [entity], targets }, ['space']);
        return found;
      }),
    lines: async (rewritten) => (await lines?.rewrite(rewritten, taken))?.changed ?? 0,
    renameFile,
  };
}

/** Everything but what says that it is done. */
async function rewriteAll(
  rewriting: Rewriting,
  { masks, maskings }: MaskRequest,
  { db }: Pick<Ledger, 'db'>,
): Promise<readonly RewrittenOf[]> {
  const { connector } = rewriting;
  const { tables, sinceOf } = await rewriting.read(async (tx) => {
    if ((await storedIdentity(tx, connector)) === undefined) {
      throw usage(`The sink at ${db.place} holds nothing of connector "${connector}".`);
    }
    const stored = new Map((await readMasks(tx, connector)).map((one) => [one.entity, one]));
    const since = new Map<string, Instant>();
    for (const { entity, mask } of masks) {
      const known = stored.get(entity);
      if (known?.mask !== mask) throw notInUse(connector, entity);
      if (known.since !== null) since.set(entity, known.since);
    }
    return { tables: await wholeTables(tx, connector), sinceOf: since };
  });
  const rewritten: RewrittenOf[] = [];
  for (const masking of maskings) {
    const since = sinceOf.get(masking.of);
    const table = tables.find(({ entity }) => entity === masking.entity);
    if (since === undefined || table === undefined) continue;
    const about = { masking, table, since };
    // In front of the rows: those whose key the mask changes take their versions along.
    const versions = table.hasVersions ? await maskVersions(rewriting, about) : 0;
    rewritten.push({
      entity: masking.entity,
      rows: await maskRows(rewriting, about),
      versions,
      quarantined: await maskQuarantined(rewriting, about),
      files: await maskFiles(rewriting, about),
      lines: await maskLines(rewriting, about),
      texts: await hideTexts(rewriting, about),
    });
  }
  return rewritten;
}

function notInUse(connector: string, entity: string) {
  return usage(
    `The mask of ${connector}/${entity} is not in use yet: the next sync begins to use it and gives its columns their types. Sync first: connector-sync sync ${connector}`,
  );
}
