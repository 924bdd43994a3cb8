import path from 'node:path';
import { buildDuration } from './build-duration.ts';
import { isConnectorName } from '../core/names.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { SettingsFile, SinkFile } from './settings-file.ts';
import type { SinkSettings } from './settings.ts';

/** Names that SQLite opens without making a file: what is stored there is gone with the process. */
const noFile = /^(:memory:$|file:)/;

/** After a problem in the file, which ends the reading of it. */
const minuteMs = 60_000;

/** The sinks by name, with absolute paths. Two sinks never share a file: each keeps its own account of it. */
export function buildSinks(
  file: SettingsFile['sinks'],
  folder: string,
  note: Note,
): ReadonlyMap<string, SinkSettings> {
  const sinks = new Map<string, SinkSettings>();
  const nameByPath = new Map<string, string>();
  for (const [name, written] of Object.entries(file)) {
    const at = ['sinks', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    const sink = buildSink(
      name,
      written,
      folder,
      buildDuration(written.lockTimeout, minuteMs, [...at, 'lockTimeout'], note),
    );
    const place = sink.type === 'sqlite' ? 'path' : 'directory';
    if (noFile.test(sink.type === 'sqlite' ? path.basename(sink.path) : '')) {
      note([...at, 'path'], 'expected the path of a file on disk');
    }
    for (const occupied of occupiedPaths(sink)) {
      const other = nameByPath.get(occupied);
      if (other !== undefined) {
        note(
          [...at, place],
          `the sink ${other} already stores its records there; give each sink its own ${place}`,
          ['sinks', name],
          ['sinks', other],
        );
      }
      nameByPath.set(occupied, name);
    }
    sinks.set(name, sink);
  }
  return sinks;
}

function buildSink(name: string, file: SinkFile, folder: string, lockTimeoutMs: number): SinkSettings {
  const how = { name, durability: file.durability, lockTimeoutMs };
  return file.type === 'sqlite'
    ? { ...how, type: 'sqlite', path: path.resolve(folder, file.path) }
    : { ...how, type: 'jsonl', directory: path.resolve(folder, file.directory) };
}

/** A JSONL sink's ledger is a database file inside its directory. */
function occupiedPaths(sink: SinkSettings): readonly string[] {
  return sink.type === 'sqlite' ? [sink.path] : [sink.directory, path.join(sink.directory, '_ledger.db')];
}
