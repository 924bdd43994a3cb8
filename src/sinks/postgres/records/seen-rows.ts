import type { EntityName } from '../../../core/names.ts';
import type { Tx } from '../session.ts';

/**
 * Which rows a chain of runs has met: one bit per row number, per entity, in chunks of 1 KiB (half of it says in which rows' homes), written in the page's
 * transaction. What is asked of must be loaded first.
 */
export interface SeenRows {
  /** Reads the chunks of these rows that are not in memory, in one statement. */
  load(tx: Tx, entity: EntityName, rows: readonly number[]): Promise<void>;
  /** Notes the row, and whether its home has shown it; true when the chain had met it before, wherever. */
  mark(entity: EntityName, row: number, isAtHome: boolean): boolean;
  /** Whether the chain has met the row. */
  has(entity: EntityName, row: number): boolean;
  /** Whether the chain has met the row in its home. */
  hasAtHome(entity: EntityName, row: number): boolean;
  /** Writes what changed, by chunk number, in one statement. Once per transaction. */
  save(tx: Tx): Promise<void>;
  /** Drops what is in memory: the transaction was rolled back. */
  forget(): void;
}
