import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { draftManifest, importManifest } from '../../../src/definitions/import/import-manifest.ts';
import { readManifest, type Manifest } from '../../../src/definitions/import/manifest-file.ts';
import { parseYaml } from '../../../src/definitions/read-yaml.ts';

type Json = Readonly<Record<string, unknown>>;

/** Writes a manifest into a folder of its own, named as public ones are, and reads it. */
export function manifestIn(folder: string, text: string): Manifest {
  const own = join(folder, 'source-corner-shop');
  mkdirSync(own, { recursive: true });
  const file = join(own, 'manifest.yaml');
  writeFileSync(file, text);
  return readManifest(file);
}

/** A stream of a test: its name, and members of the stream, the retriever and the requester in YAML flow style. */
export interface Stream {
  readonly path?: string;
  readonly stream?: string;
  readonly retriever?: string;
  readonly requester?: string;
  readonly records?: string;
  readonly key?: string;
  readonly fields?: string;
}

const properties = 'id: { type: string }, name: { type: string }, updated_at: { type: string }';

/** A manifest of these streams. Everything that a test does not name is as simple as can be. */
export function manifestText(
  streams: Readonly<Record<string, Stream>>,
  more: Readonly<Record<string, string>> = {},
): string {
  const {
    url = 'https://api.corner-shop.example/v1',
    auth = '{ type: BearerAuthenticator, api_token: "{{ config[\'api_key\'] }}" }',
    spec = 'api_key: { type: string, title: API key, airbyte_secret: true }',
    top = '',
  } = more;
  const written = Object.entries(streams).map(
    ([name, one]) => `
    ${name}:
      type: DeclarativeStream
      name: ${name}
      primary_key: ${one.key ?? 'id'}
      schema_loader: { type: InlineSchemaLoader, schema: { type: object, properties: { ${one.fields ?? properties} } } }
      ${one.stream ?? ''}
      retriever:
        record_selector: ${one.records ?? '{ type: RecordSelector, extractor: { type: DpathExtractor, field_path: [data] } }'}
        ${one.retriever ?? ''}
        requester:
          $ref: '#/definitions/requester'
          path: ${JSON.stringify(one.path ?? `/${name}`)}
          ${one.requester ?? ''}
`,
  );
  return `version: 1.2.3
type: DeclarativeSource
check: { type: CheckStream, stream_names: [${Object.keys(streams)[0]}] }
definitions:
  requester: { type: HttpRequester, url_base: ${JSON.stringify(url)}, authenticator: ${auth} }
  streams:${written.join('')}
streams:
${Object.keys(streams)
  .map((name) => `  - $ref: '#/definitions/streams/${name}'`)
  .join('\n')}
spec:
  type: Spec
  connection_specification: { type: object, required: [api_key], properties: { ${spec} } }
${top}
`;
}

/** The result for a manifest: outcomes in a line, and what is written of the entities that are converted. */
export function convert(folder: string, text: string) {
  const manifest = manifestIn(folder, text);
  const { judged, write } = draftManifest(manifest);
  const plans = [...judged.values()].flatMap((one) => (one.kind === 'converted' ? [one.plan] : []));
  const definition = plans.length === 0 ? '' : write(plans).text;
  const outcomes = Object.fromEntries(
    [...judged].map(([name, one]) => [
      name,
      one.kind === 'refused'
        ? `refused: ${one.why}`
        : one.plan.open.length > 0
          ? `todo: ${one.plan.open.map(({ text: what }) => what).join('; ')}`
          : 'converted',
    ]),
  );
  // The check of definitions accepts what is written.
  for (const [name, outcome] of importManifest(manifest).outcomes) {
    const isConverted = judged.get(name)?.kind === 'converted';
    const isBelow = outcome.kind === 'refused' && /no such (?:entity|field)/.test(outcome.why);
    if (isConverted && !isBelow) {
      expect(outcome.kind === 'refused' ? outcome.why : '', name).toBe('');
    }
  }
  // `as`: what an import writes.
  const data = (parseYaml('written.yaml', definition).data ?? {}) as Json;
  const part = (of: unknown, name: string): Json => ((of as Json | undefined)?.[name] ?? {}) as Json;
  return {
    outcomes,
    definition,
    data,
    upstream: part(data, 'upstream'),
    entity: (name: string): Json => part(data['entities'], name),
    request: (name: string): Json => part(part(part(data, 'upstream')['entities'], name), 'list'),
  };
}
