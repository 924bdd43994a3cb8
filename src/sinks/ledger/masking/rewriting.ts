import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { EntityMasking, MaskRequest } from '../../masks.ts';
import type { RecordTables, RewrittenLines } from '../driver.ts';
import type { WholeTable } from '../tables.ts';

/** How what is stored is brought under masks: for good, or, of a look, without writing anything. */
export interface Rewriting {
  readonly connector: ConnectorName;
  readonly records: RecordTables;
  readonly signal: AbortSignal;
  readonly read: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>;
  /** One transaction: what is to be rewritten is found, then rewritten. */
  readonly step: <Found extends { readonly count: number }>(
    find: (tx: Tx) => Promise<Found>,
    write: (tx: Tx, found: Found) => Promise<void>,
    entity: EntityName,
  ) => Promise<Found>;
  /** Gives how many change. */
  readonly lines: (rewritten: RewrittenLines) => Promise<number>;
  readonly renameFile: MaskRequest['renameFile'];
}

/** One table with its mask. */
export interface Masked {
  readonly masking: EntityMasking;
  readonly table: WholeTable;
  /** What was stored before may not have the mask. */
  readonly since: Instant;
}

/** Rows of a step. */
export const rowsAtOnce = 500;
