import { createHash } from 'node:crypto';
import type { SyncError } from '../core/errors.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import { quoted } from '../sql/quoted.ts';
import {
  missingPublications,
  otherVersionAdvice,
  readManifest,
  type PublishedEntity,
  type StoredManifest,
} from './manifest.ts';
import type { EntityRows, Target, TargetCheck, WrittenEntity } from './target.ts';

/** A manifest as a table of publications has it. */
export interface PublicationText {
  readonly number: number;
  readonly manifest: string;
  /** Of the text, as it was when it was written. */
  readonly sha256: string;
}

export type EntityName = Pick<PublishedEntity, 'connector' | 'entity'>;

/** What `_published_tables` has of an entity, besides what its database alone needs. */
export interface KnownTable extends EntityName {
  /** How many rows the table should have; where deletes are marked, also how many deleted ones. */
  readonly rows: readonly number[];
}

/** The tables of a target in one state of its database. */
export interface TablesReader<Known extends KnownTable> {
  /** Up to `limit`, by their numbers, from `first` on. */
  readonly publications: (first: number, limit: number) => Promise<readonly PublicationText[]>;
  /** Of one entity, or of all. */
  readonly known: (entity: EntityName | null) => Promise<readonly Known[]>;
  /** What the table of an entity is called, for people. */
  readonly nameOf: (entity: EntityName) => string;
  /** How the table differs from the one that was made (`is gone`), and what else of it is missing. */
  readonly problemsOf: (known: Known) => Promise<{
    readonly ofTable: string | null;
    readonly others: readonly string[];
    /** It has the columns that `count` needs. */
    readonly isCountable: boolean;
  }>;
  /** Its rows, as `Known` has them. */
  readonly count: (known: Known) => Promise<{ readonly rows: readonly number[]; readonly bytes: number }>;
  /** How many rows it has of all, up to `most`. */
  readonly countUpTo: (known: Known, most: number) => Promise<number>;
  /** Of a table with more rows, `lostTables` only finds out that it has as many. */
  readonly mostCounted: number;
}

const publicationsAtOnce = 20;

/**
 * Compares every table, its columns and how many rows it has with what was published, and follows the chain of
 * manifests.
 */
export async function checkTables<Known extends KnownTable>(
  reader: TablesReader<Known>,
): Promise<Omit<TargetCheck, 'files'>> {
  const problems: string[] = [];
  const chain = chainProblems();
  let publications = 0;
  let newest: PublicationText | null = null;
  for (let from = 0; ;) {
    const some: readonly PublicationText[] = await reader.publications(from, publicationsAtOnce);
    for (const publication of some) problems.push(...chain.next(publication));
    publications += some.length;
    newest = some.at(-1) ?? newest;
    from = (newest?.number ?? 0) + 1;
    if (some.length < publicationsAtOnce) break;
  }
  const tables = await reader.known(null);
  const known = new Set(tables.map(({ connector, entity }) => `${connector}/${entity}`));
  problems.push(...unlistedEntities(newest, known));
  let [rows, bytes] = [0, 0];
  for (const table of tables) {
    const name = reader.nameOf(table);
    const { ofTable, others, isCountable } = await reader.problemsOf(table);
    if (ofTable !== null) problems.push(`table ${name} ${ofTable}`);
    problems.push(...others);
    if (!isCountable) continue;
    const found = await reader.count(table);
    for (const count of found.rows) rows += count;
    bytes += found.bytes;
    const [live, deleted] = table.rows;
    const expected = `${live} rows${deleted === undefined ? '' : ` and ${deleted} deleted ones`}`;
    const [needed, counted] = [table.rows.join(' and '), found.rows.join(' and ')];
    if (needed !== counted) problems.push(`table ${name} should have ${expected}, and has ${counted}`);
  }
  return { publications, rows, bytes, problems };
}

/** Tables of these entities that are missing, differ from what was made, or have fewer rows than were published. */
export async function lostTables<Known extends KnownTable>(
  reader: TablesReader<Known>,
  entities: readonly EntityName[],
): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const entity of entities) {
    const name = reader.nameOf(entity);
    const [known] = await reader.known(entity);
    if (known === undefined) {
      lost.push(`_published_tables does not list ${name}, which was published`);
      continue;
    }
    const { ofTable } = await reader.problemsOf(known);
    const published = known.rows.reduce((sum, count) => sum + count, 0);
    const needed = Math.min(published, reader.mostCounted);
    const found = ofTable === null ? await reader.countUpTo(known, needed) : 0;
    if (ofTable !== null) lost.push(`table ${name} ${ofTable}`);
    else if (found < needed) lost.push(`table ${name} should have ${published} rows, and has ${found}`);
  }
  return lost;
}

/** The first of these columns that the table lacks, or has with another type than a given one; null: none. */
export function columnProblem(
  needed: readonly (readonly [name: string, type: string | null])[],
  typeByName: ReadonlyMap<string, string>,
): string | null {
  for (const [name, type] of needed) {
    const found = typeByName.get(name);
    if (found === undefined) return `has lost its column ${name}`;
    if (type !== null && found !== type) return `has ${found} in column ${name}, which should be ${type}`;
  }
  return null;
}

/**
 * Entities of the newest manifest that `_published_tables` lacks. `known`: as `connector/entity`. Null: no publication
 * remains.
 */
function unlistedEntities(newest: PublicationText | null, known: ReadonlySet<string>): readonly string[] {
  if (newest === null) {
    return known.size === 0 ? [] : ['_publications is empty, and there are tables of publications'];
  }
  try {
    return readManifest(newest.manifest)
      .manifest.entities.map(({ connector, entity }) => `${connector}/${entity}`)
      .filter((name) => !known.has(name))
      .map((name) => `_published_tables lacks ${name}, which was published`);
  } catch {
    // `chainProblems` has reported that it cannot be read.
    return [];
  }
}

/**
 * Follows manifests in the order of their numbers; the first may be any. Each call gives what is wrong with one of
 * them.
 */
function chainProblems(): { readonly next: (publication: PublicationText) => readonly string[] } {
  let last: PublicationText | null = null;
  return {
    next: (publication) => {
      const { number, manifest: text, sha256 } = publication;
      const before = last;
      last = publication;
      if (createHash('sha256').update(text).digest('hex') !== sha256) {
        return [`the manifest of publication ${number} was changed: its SHA-256 is another one`];
      }
      let stored: StoredManifest;
      try {
        stored = readManifest(text);
      } catch (error) {
        return [
          `the manifest of publication ${number} cannot be read (${error instanceof Error ? error.message : String(error)})`,
        ];
      }
      const { publication: named, previous } = stored.manifest;
      if (named !== number) return [`publication ${number} has the manifest of publication ${named}`];
      if (before === null) return [];
      if (before.number !== number - 1) {
        return [missingPublications(before.number + 1, number - 1)];
      }
      return previous?.sha256 === before.sha256
        ? []
        : [`publication ${number} does not follow the publication ${before.number} that is there`];
    },
  };
}

/**
 * Where `_published_tables` lacks a table: one that was published cannot take only what has changed, and one of another
 * program is not touched.
 */
export function unlisted(
  table: string,
  isThere: boolean,
  isNewGeneration: boolean,
): { readonly found: string; readonly advice: string } {
  if (!isThere) {
    return {
      found: `_published_tables does not list ${table}, which was published`,
      advice: 'Publish with --new-generation',
    };
  }
  return {
    found: `it has a table ${table} that _published_tables does not list`,
    advice: isNewGeneration ? 'Rename that table' : 'Rename that table, and publish with --new-generation',
  };
}

const manifestsAtOnce = 20;

/**
 * What a target says of its publications, from its table `_publications`: `read` gives up to `limit` of them, from
 * `first` on, or the newest one where that is null.
 */
export function tablePublications(
  read: (first: number | null, limit: number) => Promise<readonly PublicationText[]>,
  incompatible: (found: string, advice: string) => SyncError,
): Pick<Target, 'hasFiles' | 'layout' | 'newest' | 'manifests'> {
  const manifestOf = ({ number, manifest }: PublicationText): StoredManifest => {
    try {
      return readManifest(manifest);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw incompatible(
        `the manifest of publication ${number} in _publications cannot be read (${why})`,
        `${otherVersionAdvice} Else restore it from a backup.`,
      );
    }
  };
  return {
    hasFiles: false,
    layout: null,
    newest: async () => {
      const [newest] = await read(null, 1);
      return newest === undefined ? null : manifestOf(newest);
    },
    manifests: async function* (first) {
      for (let from = first; ;) {
        const some = await read(from, manifestsAtOnce);
        for (const publication of some) yield manifestOf(publication);
        const last = some.at(-1);
        if (last === undefined || some.length < manifestsAtOnce) return;
        from = last.number + 1;
      }
    },
  };
}

/** Hands on the changes of an entity batch by batch, and counts them. */
export async function writeChanges(
  { changes }: EntityRows,
  write: (records: readonly StoredRecord[]) => Promise<void>,
): Promise<WrittenEntity> {
  let [upserts, deletes] = [0, 0];
  for await (const records of changes) {
    const removed = records.filter(({ isDeleted }) => isDeleted).length;
    deletes += removed;
    upserts += records.length - removed;
    await write(records);
  }
  return { upserts, deletes, files: [], snapshot: null };
}

/** Of the rows of two tables, `t` and `s`: the same key. */
export function sameKey(key: readonly string[]): string {
  return key.map((name) => `t.${quoted(name)} = s.${quoted(name)}`).join(' AND ');
}

/**
 * Finds a key that several rows have, and deletes all but the newest of each. Keys that differ for the sink may be
 * equal in a database: lone surrogates, and the two zeros.
 */
export function newestOfKeys(
  table: string,
  key: readonly string[],
): { readonly isAnyTwice: string; readonly deleteOlder: string } {
  const names = key.map(quoted).join(', ');
  return {
    isAnyTwice: `SELECT 1 AS one FROM ${table} GROUP BY ${names} HAVING count(*) > 1 LIMIT 1`,
    deleteOlder: `DELETE FROM ${table} AS t USING (SELECT ${names}, max(_seq) AS newest FROM ${table} GROUP BY ${names}) AS s
      WHERE ${sameKey(key)} AND t._seq < s.newest`,
  };
}
