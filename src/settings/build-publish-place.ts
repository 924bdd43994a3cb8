import path from 'node:path';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { buildPostgres } from './build-postgres.ts';
import { schemaName } from './build-sinks.ts';
import { isLoopback } from './check-urls.ts';
import type { PublishFile } from './settings-file.ts';
import type { PublishPlace } from './settings.ts';

type At = readonly string[];

/** Flat: deep trees are slow to list. */
export const defaultLayout = '{connector}/{entity}/g{generation}/{kind}/{publication}-{part}';

/** Where a target is. Relative paths begin at `folder`. */
export function buildPublishPlace(name: string, file: PublishFile, folder: string, note: Note): PublishPlace {
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
