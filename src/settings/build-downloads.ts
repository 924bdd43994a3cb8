import path from 'node:path';
import type { EntityName } from '../core/names.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Definition } from '../definitions/definition.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { isSharedSink, type Sink } from './build-sinks.ts';
import type { DownloadsFile } from './connector-file.ts';

interface OfConnector {
  readonly definition: Definition;
  /** Those that the connector reads. */
  readonly read: ReadonlySet<EntityName>;
  readonly sinks: Iterable<Sink>;
  /** Its own; undefined where the config names none that there is. */
  readonly sink: Sink | undefined;
  /** Of the config file: relative paths begin there. */
  readonly folder: string;
  readonly at: readonly string[];
}

/** Whose files a connector fetches, and where to; null where the file says nothing of it. */
export function buildDownloads(file: DownloadsFile | undefined, of: OfConnector, note: Note) {
  if (file === undefined) return null;
  const { at, folder } = of;
  const directory = path.resolve(folder, file.directory);
  const sink = [...of.sinks].find((one) => isStoredIn(one, directory));
  if (sink !== undefined) {
    note(
      [...at, 'directory'],
      `the sink ${sink.name} stores its records there; give files a separate directory`,
      ['sinks', sink.name],
    );
  }
  if (of.sink !== undefined && isSharedSink(of.sink.type) && !file.shared) {
    note(
      [...at, 'directory'],
      `sink ${of.sink.name} may be written from several machines, which must see the same files: expected a directory that they share, and shared: true`,
    );
  }
  return {
    /** Absolute; files lie in `<directory>/<connector>/<entity>/`. */
    directory,
    /** Of the connector's entities, those whose files are fetched. Not empty. */
    entities: buildEntities(file, of, note),
    /** A larger file is not fetched, and counts as failed. */
    maxBytes: file.maxBytes,
  };
}

function isStoredIn(sink: Sink, directory: string): boolean {
  switch (sink.type) {
    case 'sqlite':
      return directory === sink.path;
    case 'jsonl':
      return directory === sink.directory;
    case 'postgres':
      return false;
  }
}

function buildEntities(
  { entities }: DownloadsFile,
  { definition, read, at }: OfConnector,
  note: Note,
): readonly EntityName[] {
  const known = [...definition.entities.keys()];
  const withFiles = known.filter((name) => definition.entities.get(name)?.actions.has('download') === true);
  if (entities === undefined) {
    const found = withFiles.filter((name) => read.has(name));
    if (found.length === 0) note(at, `${none(definition, withFiles)}; leave downloads out`);
    return found;
  }
  entities.forEach((name, index) => {
    const here = [...at, 'entities', String(index)];
    if (!known.some((entity) => entity === name)) {
      const suggestion = suggestName(name, withFiles);
      note(here, `no such entity in ${definition.name}: ${JSON.stringify(name)}${suggestion}`);
    } else if (!withFiles.some((entity) => entity === name)) {
      note(here, `${name} has no files: expected one of ${withFiles.join(', ') || 'none'}`);
    } else if (![...read].some((entity) => entity === name)) {
      note(here, `${name} is not read: its files are known from its records`);
    } else if (entities.indexOf(name) !== index) {
      note(here, `${name} is named twice`);
    }
  });
  return withFiles.filter((name) => entities.includes(name));
}

function none({ name }: Definition, withFiles: readonly EntityName[]): string {
  return withFiles.length === 0
    ? `no entity of ${name} has files`
    : `none of the entities that have files (${withFiles.join(', ')}) is read`;
}
