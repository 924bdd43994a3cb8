import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseDocument } from 'yaml';
import { knownOrMade } from '../../../src/core/grouped.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import { buildDefinition } from '../../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, prepareDefinitions } from '../../../src/definitions/load-definitions.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import { type RevisingAccount, revisingAccount } from '../revising-account.ts';
import { sampleSeed } from '../sample-service.ts';
import { sampleTruth, type TruthRecord } from '../sample-truth.ts';
import { type ReadyService, startReadyService } from '../ready/ready-service.ts';
import { type FakeDesk, startFakeDesk } from './desk.ts';
import type { FakeServer } from './fake-server.ts';
import { startFakeMailchimp } from './mailchimp.ts';
import { type FakeNotion, startFakeNotion } from './notion.ts';

interface SampleWorldOptions {
  readonly size?: SampleSize;
  readonly seed?: number;
  /** Another name for the connector type: the config knows the built-in one already. */
  readonly as?: string;
  /** Another account of the same service: other credentials, another identity. */
  readonly accountName?: string;
  /** Stands between the service and the account. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}

/** Made-up Mailchimp with a sample account that can be moved from revision to revision, also while it is read. */
export async function mailchimpWorld(options: SampleWorldOptions = {}) {
  const { accountName, wrap = (same) => same } = options;
  const account = accountFor('email-marketing', options);
  const fake = await startFakeMailchimp(wrap(account), accountName);
  const world = worldOf(fake, {
    file: path.join(builtInDefinitionsFolder, 'email-marketing.yaml'),
    as: options.as ?? null,
    credentials: [['API key', { api_key: fake.apiKey }]],
    identity: fake.accountId,
    truth: (entity) => sampleTruth(fake.account, entity),
  });
  return { ...world, moveTo: (revision: number) => account.moveTo(revision) };
}

/** Made-up Notion, likewise. */
export async function notionWorld(options: SampleWorldOptions = {}) {
  const account = accountFor('workspace-notes', options);
  const fake = await startFakeNotion(account, options.accountName);
  const world = worldOf(fake, {
    file: path.join(builtInDefinitionsFolder, 'workspace-notes.yaml'),
    as: options.as ?? null,
    tokenUrl: `${fake.baseUrl}/oauth/token`,
    credentials: [
      ['Internal integration token', { token: fake.token }],
      ['OAuth', appOf(fake)],
    ],
    identity: fake.workspaceId,
    truth: (entity) => sampleTruth(fake.account, entity),
  });
  return { ...world, moveTo: (revision: number) => account.moveTo(revision) };
}

/** The made-up help desk, whose rows a test may give and change. */
export async function deskWorld(
  options: { readonly rows?: Parameters<typeof startFakeDesk>[0] } & Pick<SampleWorldOptions, 'as'> = {},
) {
  const fake = await startFakeDesk(options.rows);
  const [email = ''] = fake.user.split('/');
  return worldOf(fake, {
    file: new URL('../../fixtures/upstream/help-desk.yaml', import.meta.url),
    as: options.as ?? null,
    tokenUrl: `${fake.origin}/oauth/token`,
    credentials: [
      ['Key in a header', { header_key: fake.key }],
      ['Key in the query', { query_key: fake.key }],
      ['Agent', { email, agent_key: fake.key }],
      ['Token', { token: fake.key }],
      ['App', appOf(fake)],
    ],
    identity: fake.accountId,
    truth: (entity) => fake.rows(entity).map((record) => ({ record, params: {} })),
  });
}

/** The made-up service of a definition that comes with the program. */
export async function readyWorld(service: ReadyService) {
  const fake = await startReadyService(service);
  return worldOf(fake, {
    file: path.join(builtInDefinitionsFolder, `${service.name}.yaml`),
    as: `my-${service.name}`,
    credentials: [service.signIn],
    identity: service.identity,
    truth: (kind) => fake.rowsOf(kind),
  });
}

function accountFor(definitionName: string, options: SampleWorldOptions): RevisingAccount {
  const { size = 'tiny', seed = sampleSeed } = options;
  return revisingAccount({ definitionName, seed, size });
}

function appOf({ oauth }: FakeNotion | FakeDesk): JsonObject {
  const { accessToken, refreshToken } = oauth.tokens();
  const app = { client_id: oauth.clientId, client_secret: oauth.clientSecret };
  return { ...app, access_token: accessToken, refresh_token: refreshToken };
}

interface WorldParts {
  readonly file: string | URL;
  readonly as: string | null;
  readonly tokenUrl?: string;
  readonly credentials: readonly (readonly [string, JsonObject])[];
  readonly identity: string;
  readonly truth: (entity: string) => Iterable<TruthRecord>;
}

export type UpstreamWorld<Fake extends FakeServer = FakeServer> = ReturnType<typeof worldOf<Fake>>;

/** A made-up service with all that a connector needs to read it. */
function worldOf<Fake extends FakeServer>(fake: Fake & { readonly baseUrl: string }, parts: WorldParts) {
  const folder = mkdtempSync(path.join(tmpdir(), 'upstream-'));
  const definitionsFolder = path.join(folder, 'definitions');
  mkdirSync(definitionsFolder);
  const { file, as, tokenUrl = '' } = parts;
  const read = knownOrMade(moved, `${String(file)} ${as}`, () =>
    movedDefinition(definitionsFolder, file, as),
  );
  const here = (text: string): string =>
    text.replaceAll(`${anywhere}/token`, tokenUrl).replaceAll(anywhere, fake.baseUrl);
  writeFileSync(path.join(definitionsFolder, 'definition.yaml'), here(read.text));
  // `as`: as the program keeps a definition that its build has checked.
  const checked = JSON.parse(here(JSON.stringify(read.file))) as typeof read.file;
  const definition = buildDefinition(checked, read.contentHash, read.todos);
  return {
    fake: fake as Fake,
    /** The connector type, with the address of the made-up service in place of the real one, without its low rates. */
    definition,
    /** A folder that holds this definition alone: for the `definitions` of a config. */
    definitionsFolder,
    /** The host names that the program must be allowed to reach. */
    allowHosts: ['127.0.0.1'],
    /** By the title of the shape; the first is what most people use. */
    credentials: new Map(parts.credentials),
    /** What the service calls the account of these credentials. */
    identity: parts.identity,
    /** Every record of an entity as the service writes it, with the parameters of its listing. */
    truth: parts.truth,
    async [Symbol.asyncDispose]() {
      await fake[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The address of every made-up service in the stored text, which is read once for all tests. */
const anywhere = 'http://127.0.0.1/moved';
const moved = new Map<string, ReturnType<typeof movedDefinition>>();

/** The definition as its file has it, but for where the service is and how fast it may be asked. */
function movedDefinition(folder: string, file: string | URL, as: string | null) {
  const document = parseDocument(readFileSync(file, 'utf8'));
  document.setIn(['upstream', 'baseUrl'], anywhere);
  // The address no longer has names.
  document.deleteIn(['upstream', 'host']);
  const auth = (document.toJS() as { upstream: { auth: Record<string, JsonObject> } }).upstream.auth;
  for (const [title, { kind }] of Object.entries(auth)) {
    if (kind === 'refresh') document.setIn(['upstream', 'auth', title, 'tokenUrl'], `${anywhere}/token`);
  }
  document.setIn(['upstream', 'limits', 'requestsPerSecond'], 1_000);
  document.setIn(['rateLimit', 'requestsPerSecond'], 1_000);
  if (as !== null) {
    document.set('name', as);
    document.delete('aliases');
  }
  const text = document.toString();
  writeFileSync(path.join(folder, 'definition.yaml'), text);
  const [prepared] = Object.values(prepareDefinitions(folder));
  if (prepared === undefined) throw new Error('the definition was not read');
  return { ...prepared, text };
}
