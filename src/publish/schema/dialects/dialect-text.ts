import type { Catalogue } from '../catalogue.ts';

/** What one kind of warehouse is given. */
export interface DialectText {
  /** Statements that make schema, tables and views; they can be run again. */
  readonly tables: (catalogue: Catalogue) => string;
  /** Statements that load what is published; null where the target has no files. */
  readonly load: (catalogue: Catalogue) => string | null;
  /** Further files that the statements read. */
  readonly besides?: (catalogue: Catalogue) => readonly { readonly path: string; readonly text: string }[];
}
