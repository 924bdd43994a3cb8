import path from 'node:path';
import { isConnectorName, type ConnectorName } from '../core/names.ts';
import { Secret } from '../core/secret.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import { buildPostgres } from './build-postgres.ts';
import { schemaName } from './build-sinks.ts';
import { isLoopback } from './check-urls.ts';
import { buildDuration } from './parse-unit.ts';
import type { PublishFile, SettingsFile } from './settings-file.ts';
import type { ConnectorSettings, PublishPlace, PublishSettings } from './settings.ts';

interface Known {
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorSettings>;
  /** Where relative paths begin. */
  readonly folder: string;
}

type At = readonly string[];

/** Flat: deep trees are slow to list. */
export const defaultLayout = '{connector}/{entity}/g{generation}/{kind}/{publication}-{part}';

/** The targets by name. */
export function buildPublish(
  file: SettingsFile['publish'],
  known: Known,
  note: Note,
): ReadonlyMap<string, PublishSettings> {
  return new Map(
    Object.entries(file).map(([name, target]) => {
      const at = ['publish', name];
      if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
      return [
        name,
        {
          ...buildPlace(name, target, known.folder, note),
          name,
          connectors: connectorsOf(target, known.connectors, at, note),
          when: whenOf(target.when, at, note),
          snapshotEveryMs: buildDuration(target.snapshotEvery, null, [...at, 'snapshotEvery'], note),
          keepMs: buildDuration(target.keep, null, [...at, 'keep'], note),
        },
      ];
    }),
  );
}

function connectorsOf(
  { connectors: names }: PublishFile,
  all: Known['connectors'],
  at: At,
  note: Note,
): readonly ConnectorSettings[] {
  const chosen = (names ?? [...all.keys()]).flatMap((name, index) => {
    const known = isConnectorName(name) ? all.get(name) : undefined;
    if (known === undefined) {
      note([...at, 'connectors', String(index)], `expected the name of a connector, got "${name}"`);
    }
    return known === undefined ? [] : [known];
  });
  const sinks = [...new Set(chosen.map(({ sink }) => sink.name))];
  if (sinks.length > 1) {
    note(
      [...at, ...(names === undefined ? [] : ['connectors'])],
      `expected connectors of one sink, got those of ${sinks.join(' and ')}: a publication shows one state of its sink. Make a target for each`,
    );
  }
  return chosen;
}

function whenOf(when: PublishFile['when'], at: At, note: Note): PublishSettings['when'] {
  if (typeof when === 'string') return { kind: when };
  return { kind: 'every', everyMs: buildDuration(when.every, hourMs, [...at, 'when', 'every'], note) };
}

/** After a problem in the file, which ends the reading of it. */
const hourMs = 3_600_000;

function buildPlace(name: string, file: PublishFile, folder: string, note: Note): PublishPlace {
  const at = ['publish', name];
  switch (file.type) {
    case 'files':
      return {
        type: 'files',
        directory: path.resolve(folder, file.directory),
        format: file.format,
        layout: layoutOf(file.layout, at, note),
      };
    case 's3':
      return buildS3(file, at, note);
    case 'postgres': {
      const schema = file.schema ?? name.replaceAll('-', '_');
      if (!schemaName.test(schema)) {
        note(
          [...at, 'schema'],
          'expected 1 to 40 lower-case letters, digits and _, beginning with a letter, not pg_',
        );
      }
      const connection = buildPostgres(file.url, file.password, folder, [...at, 'url'], note);
      return { type: 'postgres', connection, schema, deletes: file.deletes };
    }
    case 'duckdb':
      return { type: 'duckdb', path: path.resolve(folder, file.path) };
  }
}

function buildS3(file: Extract<PublishFile, { type: 's3' }>, at: At, note: Note): PublishPlace {
  const { bucket, region = null, endpoint = null, accessKeyId, secretAccessKey } = file;
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    note([...at, 'bucket'], 'expected the name of a bucket: 3 to 63 lower-case letters, digits, - and .');
  }
  if (endpoint !== null) checkEndpoint(endpoint, [...at, 'endpoint'], note);
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    note(at, 'expected both accessKeyId and secretAccessKey, or neither');
  }
  const prefix = file.prefix.replace(/^\/+|\/+$/g, '');
  if (!/^(?:[A-Za-z0-9_=-][A-Za-z0-9._=-]*(?:\/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*)?$/.test(prefix)) {
    note([...at, 'prefix'], 'expected names of letters, digits and . _ = - with / between them');
  }
  return {
    type: 's3',
    bucket,
    prefix,
    region,
    endpoint,
    credentials:
      accessKeyId === undefined || secretAccessKey === undefined
        ? null
        : { accessKeyId, secretAccessKey: new Secret(secretAccessKey) },
    format: file.format,
    layout: layoutOf(file.layout, at, note),
  };
}

function checkEndpoint(text: string, at: At, note: Note): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isAllowed = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
  if (!isAllowed || url.username !== '' || url.search !== '' || url.hash !== '') {
    note(at, 'expected an https address without a user, or http on this machine');
  }
}

const placeholders = ['connector', 'entity', 'generation', 'kind', 'date', 'publication', 'part'];
const needed = ['connector', 'entity', 'generation', 'kind', 'publication', 'part'];

/** Every file has a name of its own only with all but the date. */
function layoutOf(text: string | undefined, at: At, note: Note): string {
  if (text === undefined) return defaultLayout;
  const used = [...text.matchAll(/\{([^{}]*)\}/g)].map(([, name = '']) => name);
  const unknown = used.find((name) => !placeholders.includes(name));
  const missing = needed.find((name) => !used.includes(name));
  const plain = text.replaceAll(/\{[a-z]+\}/g, 'x');
  const mistake =
    unknown !== undefined
      ? `expected one of {${placeholders.join('}, {')}}, got {${unknown}}`
      : missing !== undefined
        ? `expected {${missing}} in it, or files would have the same name`
        : 'expected a relative path of letters, digits and . _ = - with / between them';
  const isPath = /^[A-Za-z0-9][A-Za-z0-9._=-]*(?:\/[A-Za-z0-9][A-Za-z0-9._=-]*)*$/.test(plain);
  if (unknown !== undefined || missing !== undefined || !isPath) note([...at, 'layout'], mistake);
  return text;
}
