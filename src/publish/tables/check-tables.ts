import { createHash } from 'node:crypto';
import { entityName, missingPublications, readManifest, type StoredManifest } from '../manifest.ts';
import type { TargetCheck } from '../target.ts';
import { publicationsFrom, publicationsOf, type PublicationText } from './table-publications.ts';
import { givenShape, knownTables, shapeProblem } from './target-tables.ts';
import type { EntityName, KnownTable, TargetTables } from './target-tables.ts';

/**
 * Compares every table, its columns and how many rows it has with what was published, and follows the chain of
 * manifests.
 */
export async function checkTables(tables: TargetTables): Promise<Omit<TargetCheck, 'files'>> {
  const problems: string[] = [];
  let publications = 0;
  let newest: PublicationText | null = null;
  const read = async (first: number, limit: number): Promise<readonly PublicationText[]> =>
    await publicationsOf(tables, first, limit);
  for await (const publication of publicationsFrom(read, 0)) {
    problems.push(...chainProblem(newest, publication));
    publications += 1;
    newest = publication;
  }
  const known = await knownTables(tables, null);
  problems.push(...unlistedEntities(newest, known));
  let [rows, bytes] = [0, 0];
  for (const table of known) {
    const name = tables.nameOf(table);
    const there = await tables.typesThere(table);
    const problem = await shapeProblem(tables, table, givenShape(table), there);
    if (problem !== null) problems.push(`table ${name} ${problem}`);
    problems.push(...(await tables.lostWith(table)));
    const { liveRows, deletedRows } = table;
    // By these columns rows are counted.
    const isCountable =
      deletedRows === undefined ? there?.has('_seq') === true : there?.get('_deleted') === 'boolean';
    if (!isCountable) continue;
    const [found] = await tables.db.rows<{ live: number; deleted?: number; bytes: number }>(
      tables.countSql(table),
    );
    const { live = 0, deleted = 0 } = found ?? {};
    rows += live + deleted;
    bytes += found?.bytes ?? 0;
    if (live === liveRows && deleted === (deletedRows ?? 0)) continue;
    const expected = `${liveRows} rows${deletedRows === undefined ? '' : ` and ${deletedRows} deleted ones`}`;
    const counted = deletedRows === undefined ? `${live}` : `${live} and ${deleted}`;
    problems.push(`table ${name} should have ${expected}, and has ${counted}`);
  }
  return { publications, rows, bytes, problems };
}

/** Tables of these entities that are missing, differ from what was made, or have fewer rows than were published. */
export async function lostTables(
  tables: TargetTables,
  entities: readonly EntityName[],
): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const entity of entities) {
    const name = tables.nameOf(entity);
    const [known] = await knownTables(tables, entity);
    if (known === undefined) {
      lost.push(`_published_tables does not list ${name}, which was published`);
      continue;
    }
    const problem = await shapeProblem(tables, entity, givenShape(known), await tables.typesThere(entity));
    if (problem !== null) {
      lost.push(`table ${name} ${problem}`);
      continue;
    }
    const published = known.liveRows + (known.deletedRows ?? 0);
    const needed = Math.min(published, tables.mostCounted ?? published);
    const found = await countUpTo(tables, entity, needed);
    if (found < needed) lost.push(`table ${name} should have ${published} rows, and has ${found}`);
  }
  return lost;
}

async function countUpTo(
  { db, sqlName, mostCounted }: TargetTables,
  entity: EntityName,
  most: number,
): Promise<number> {
  const table = sqlName(entity);
  const from = mostCounted === null ? table : `(SELECT 1 FROM ${table} LIMIT ${most}) AS counted`;
  const [found] = await db.rows<{ readonly rows: number }>(`SELECT count(*) AS rows FROM ${from}`);
  return found?.rows ?? 0;
}

/** Entities of the newest manifest that `_published_tables` lacks. Null: no publication remains. */
function unlistedEntities(newest: PublicationText | null, tables: readonly KnownTable[]): readonly string[] {
  if (newest === null) {
    return tables.length === 0 ? [] : ['_publications is empty, and there are tables of publications'];
  }
  const known = new Set(tables.map(entityName));
  try {
    return readManifest(newest.manifest)
      .manifest.entities.map(entityName)
      .filter((name) => !known.has(name))
      .map((name) => `_published_tables lacks ${name}, which was published`);
  } catch {
    // `chainProblem` has reported that it cannot be read.
    return [];
  }
}

/** What is wrong with a publication that comes behind `before` in the order of their numbers. */
function chainProblem(
  before: PublicationText | null,
  { number, manifest: text, sha256 }: PublicationText,
): readonly string[] {
  if (createHash('sha256').update(text).digest('hex') !== sha256) {
    return [`the manifest of publication ${number} was changed: its SHA-256 is another one`];
  }
  let stored: StoredManifest;
  try {
    stored = readManifest(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [`the manifest of publication ${number} cannot be read (${why})`];
  }
  const { publication: named, previous } = stored.manifest;
  if (named !== number) return [`publication ${number} has the manifest of publication ${named}`];
  if (before === null) return [];
  if (before.number !== number - 1) return [missingPublications(before.number + 1, number - 1)];
  return previous?.sha256 === before.sha256
    ? []
    : [`publication ${number} does not follow the publication ${before.number} that is there`];
}
