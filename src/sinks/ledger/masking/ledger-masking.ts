import { instant, type Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Masking, MaskRequest, RewrittenOf } from '../../masks.ts';
import { noRun } from '../acquire.ts';
import { noteAction } from '../actions.ts';
import { storedIdentity } from '../connectors.ts';
import { wholeTables } from '../copies/copy-out.ts';
import type { Taken } from '../driver.ts';
import { long, type Ledger } from '../ledger.ts';
import { nothingOlder, readMasks } from '../masks.ts';
import { completeSteps, noteSteps } from '../purges/complete-steps.ts';
import { holding } from '../purges/ledger-purges.ts';
import { maskLines } from './mask-lines.ts';
import { maskRows, maskVersions } from './mask-rows.ts';
import { hideTexts } from './hide-texts.ts';
import { maskFiles, maskQuarantined } from './mask-notes.ts';
import type { Rewriting } from './rewriting.ts';

/** `Masking` of a sink. */
export function ledgerMasking(ledger: Ledger): Masking {
  return {
    look: async (connector, asked) => await rewriteAll(lookingAt(ledger, connector, asked), asked, ledger),
    rewrite: async (connector, asked) =>
      await holding(ledger, connector, async (taken) => {
        const entities = await rewriteAll(holdingIt(ledger, taken, asked), asked, ledger);
        await taken.inTurn(
          async () =>
            await taken.transact(noRun, async (tx) => {
              await nothingOlder(tx, connector, asked.masks);
              const rows = entities.reduce((sum, one) => sum + one.rows + one.versions, 0);
              noteAction(tx, ledger, { action: 'purge', connector, detail: { isUnmasked: true, rows } });
            }),
        );
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
    lines: async (rewritten) => (await lines?.rewrite(rewritten, null)) ?? 0,
    renameFile: () => Promise.resolve(),
  };
}

function holdingIt(ledger: Ledger, taken: Taken, { signal, renameFile }: MaskRequest): Rewriting {
  const { records, lines } = ledger;
  const { connector } = taken;
  const since = instant(ledger.clock.now());
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await taken.inTurn(async () => await taken.transact(noRun, work, long));
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
        await noteSteps(tx, ledger, { connector, entities: [entity], since }, ['space']);
        return found;
      }),
    lines: async (rewritten) => (await lines?.rewrite(rewritten, transact)) ?? 0,
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
