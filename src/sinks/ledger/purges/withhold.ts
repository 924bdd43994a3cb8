import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { keyTextOf, type PreparedRecord } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { refusedName } from '../../purges.ts';
import type { RowsOf } from '../../run-report.ts';
import type { RunPlan, PageCommit } from '../../sink.ts';
import { readPurgeNotes } from './purge-notes.ts';
import { readJoinsBelow } from './joins-below.ts';

/** A page without its purged records; `withheld` counts them. */
export interface WithheldPage extends PageCommit {
  readonly withheld?: readonly RowsOf[];
}

/** What a run knows of purged records: no purge takes place while it holds the connector. */
export interface Withholding {
  /** The record, or the one that it belongs to by definition, was purged. */
  isPurged(entity: EntityName, record: Pick<PreparedRecord, 'keyText' | 'values'>): boolean;
  /** A note of the record itself that keeps it away. */
  readonly isNoted: (entity: EntityName, keyText: string) => boolean;
}

/** Null where nothing is to be kept away, which costs a run one look-up. */
export async function readWithholding(
  tx: Tx,
  connector: ConnectorName,
  tables: RunPlan['tables'],
): Promise<Withholding | null> {
  const notes = await readPurgeNotes(tx, connector);
  if (notes === null || notes.count === 0) return null;
  const isNoted = (entity: EntityName, keyText: string): boolean =>
    notes.noteOf(entity, keyText)?.canReturn === false;
  const joins = await readJoinsBelow(tx, connector);
  const parentKeys = new Map(
    tables.map(({ entity, columns }) => [
      entity,
      joins
        .filter((join) => join.entity === entity)
        .map(({ parent, columns: names }) => ({
          parent,
          indexes: names.map((name) => columns.findIndex((column) => column.name === name)),
        })),
    ]),
  );
  return {
    isNoted,
    isPurged: (entity, { keyText, values }) =>
      isNoted(entity, keyText) ||
      (parentKeys.get(entity) ?? []).some(({ parent, indexes }) =>
        isNoted(parent, keyTextOf(indexes.map((index) => values[index] ?? null))),
      ),
  };
}

/**
 * Takes purged records out of a page, with what they lead to. They were met: the walk proves what it would prove with
 * them, and they count as filtered.
 */
export function withoutPurged(purged: Withholding | null, page: PageCommit): WithheldPage {
  if (purged === null) return page;
  const withheld: RowsOf[] = [];
  const rows = page.rows.map(({ entity, records }) => {
    const kept = records.filter((record) => !purged.isPurged(entity, record));
    if (kept.length < records.length) withheld.push({ entity, rows: records.length - kept.length });
    return { entity, records: kept };
  });
  const refused = page.refused.filter(
    ({ entity, keyText, record }) =>
      (keyText === undefined || !purged.isNoted(entity, keyText)) &&
      !purged.isNoted(entity, refusedName(record)),
  );
  for (const { entity } of page.refused.filter((one) => !refused.includes(one))) {
    withheld.push({ entity, rows: 1 });
  }
  const children = page.children.filter(
    ({ parent }) => parent === null || !purged.isNoted(parent.entity, parent.keyText),
  );
  if (withheld.length === 0 && children.length === page.children.length) return page;
  return { ...page, rows, refused, children, withheld };
}
