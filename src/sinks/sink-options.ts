/** Where a sink is. */
export type SinkPlace =
  { readonly type: 'sqlite'; readonly path: string } | { readonly type: 'jsonl'; readonly directory: string };

/** What the settings say of a sink. */
export type SinkOptions = SinkPlace & {
  readonly name: string;
  readonly durability: 'full' | 'normal';
  /** How long to wait while another program holds the write lock of the sink's database; a minute where nothing is said. */
  readonly lockTimeoutMs?: number;
};
