/** The partitions that a run works off: of these entities, living ones (window '') or those of a backfill's window. */
export type Scope = {
  readonly connector: string;
  readonly window: string;
  readonly entities: readonly string[];
};

export const inScope = 'connector = :connector AND backfill = :window AND entity IN {entities text}';
