import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseDocument } from 'yaml';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import { type RevisingAccount, revisingAccount } from '../revising-account.ts';
import { sampleSeed } from '../sample-service.ts';
import { sampleTruth, type TruthRecord } from '../sample-truth.ts';
import type { FakeServer } from './fake-server.ts';
import { type FakeDesk, type FakeDeskOptions, startFakeDesk } from './made-up/fake-desk.ts';
import { type FakeMailchimp, startFakeMailchimp } from './mailchimp/fake-mailchimp.ts';
import { type FakeNotion, startFakeNotion } from './notion/fake-notion.ts';

/** A made-up service with all that a connector needs to read it. */
export interface UpstreamWorld<Fake extends FakeServer> extends AsyncDisposable {
  readonly fake: Fake;
  /**
   * The connector type, with the address of the made-up service in place of the real one, and without its low rates.
   */
  readonly definition: Definition;
  /** A folder that holds this definition alone: for the `definitions` of a config. */
  readonly definitionsFolder: string;
  /** The host names that the program must be allowed to reach. */
  readonly allowHosts: readonly string[];
  /** By the title of the shape; the first is what most people use. */
  readonly credentials: ReadonlyMap<string, JsonObject>;
  /** What the service calls the account of these credentials. */
  readonly identity: string;
  /** Every record of an entity as the service writes it, with the parameters of its listing. */
  truth(entity: string): Iterable<TruthRecord>;
}

export interface SampleWorldOptions {
  readonly size?: SampleSize;
  readonly revision?: number;
  readonly seed?: number;
  /** Another name for the connector type: the config knows the built-in one already. */
  readonly as?: string;
  /** Another account of the same service: other credentials, another identity. */
  readonly accountName?: string;
  /** Stands between the service and the account. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}

/** Made-up Mailchimp with a sample account that can be moved from revision to revision, also while it is read. */
export async function mailchimpWorld(
  options: SampleWorldOptions = {},
): Promise<UpstreamWorld<FakeMailchimp> & Pick<RevisingAccount, 'moveTo'>> {
  const { accountName, wrap = (same) => same } = options;
  const account = accountFor('email-marketing', options);
  const fake = await startFakeMailchimp({
    account: wrap(account),
    ...(accountName === undefined ? {} : { accountName }),
  });
  const world = worldOf(fake, {
    file: path.join(builtInDefinitionsFolder, 'email-marketing.yaml'),
    as: options.as ?? null,
    urls: { baseUrl: fake.baseUrl },
    credentials: [['API key', { api_key: fake.apiKey }]],
    identity: fake.accountId,
    truth: (entity) => sampleTruth(fake.account, entity),
  });
  return { ...world, moveTo: (revision) => account.moveTo(revision) };
}

/** Made-up Notion, likewise. */
export async function notionWorld(
  options: SampleWorldOptions = {},
): Promise<UpstreamWorld<FakeNotion> & Pick<RevisingAccount, 'moveTo'>> {
  const { accountName } = options;
  const account = accountFor('workspace-notes', options);
  const fake = await startFakeNotion({
    account,
    ...(accountName === undefined ? {} : { workspaceName: accountName }),
  });
  const { accessToken, refreshToken } = fake.oauth.tokens();
  const world = worldOf(fake, {
    file: path.join(builtInDefinitionsFolder, 'workspace-notes.yaml'),
    as: options.as ?? null,
    urls: { baseUrl: fake.baseUrl, tokenUrl: `${fake.baseUrl}/oauth/token` },
    credentials: [
      ['Internal integration token', { token: fake.token }],
      ['OAuth', { ...appOf(fake), access_token: accessToken, refresh_token: refreshToken }],
    ],
    identity: fake.workspaceId,
    truth: (entity) => sampleTruth(fake.account, entity),
  });
  return { ...world, moveTo: (revision) => account.moveTo(revision) };
}

/** The made-up help desk, whose rows a test may give and change. */
export async function deskWorld(
  options: FakeDeskOptions & Pick<SampleWorldOptions, 'as'> = {},
): Promise<UpstreamWorld<FakeDesk>> {
  const fake = await startFakeDesk(options);
  const { accessToken, refreshToken } = fake.oauth.tokens();
  const [email = ''] = fake.user.split('/');
  return worldOf(fake, {
    file: new URL('../../fixtures/upstream/help-desk.yaml', import.meta.url),
    as: options.as ?? null,
    urls: { baseUrl: fake.baseUrl, tokenUrl: `${fake.origin}/oauth/token` },
    credentials: [
      ['Key in a header', { header_key: fake.key }],
      ['Key in the query', { query_key: fake.key }],
      ['Agent', { email, agent_key: fake.key }],
      ['Token', { token: fake.key }],
      ['App', { ...appOf(fake), access_token: accessToken, refresh_token: refreshToken }],
    ],
    identity: fake.accountId,
    truth: (entity) => fake.rows(entity).map((record) => ({ record, params: {} })),
  });
}

function accountFor(definitionName: string, options: SampleWorldOptions): RevisingAccount {
  const { size = 'tiny', revision = 0, seed = sampleSeed } = options;
  return revisingAccount({ definitionName, seed, size, revision });
}

function appOf({ oauth }: FakeNotion | FakeDesk): JsonObject {
  return { client_id: oauth.clientId, client_secret: oauth.clientSecret };
}

interface WorldParts {
  readonly file: string | URL;
  readonly as: string | null;
  readonly urls: { readonly baseUrl: string; readonly tokenUrl?: string };
  readonly credentials: readonly (readonly [string, JsonObject])[];
  readonly identity: string;
  readonly truth: (entity: string) => Iterable<TruthRecord>;
}

function worldOf<Fake extends FakeServer>(fake: Fake, parts: WorldParts): UpstreamWorld<Fake> {
  const folder = mkdtempSync(path.join(tmpdir(), 'upstream-'));
  const definitionsFolder = path.join(folder, 'definitions');
  mkdirSync(definitionsFolder);
  writeFileSync(path.join(definitionsFolder, 'definition.yaml'), movedDefinition(parts));
  const [definition] = loadDefinitions([definitionsFolder]).values();
  if (definition === undefined) throw new Error('the definition was not read');
  return {
    fake,
    definition,
    definitionsFolder,
    allowHosts: ['127.0.0.1'],
    credentials: new Map(parts.credentials),
    identity: parts.identity,
    truth: parts.truth,
    async [Symbol.asyncDispose]() {
      await fake[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The definition as its file has it, but for where the service is and how fast it may be asked. */
function movedDefinition({ file, as, urls }: WorldParts): string {
  const document = parseDocument(readFileSync(file, 'utf8'));
  document.setIn(['upstream', 'baseUrl'], urls.baseUrl);
  // The address no longer has names.
  document.deleteIn(['upstream', 'host']);
  const auth = (document.toJS() as { upstream: { auth: Record<string, JsonObject> } }).upstream.auth;
  for (const [title, { kind }] of Object.entries(auth)) {
    if (kind === 'refresh') document.setIn(['upstream', 'auth', title, 'tokenUrl'], urls.tokenUrl);
  }
  document.setIn(['upstream', 'limits', 'requestsPerSecond'], 1_000);
  document.setIn(['rateLimit', 'requestsPerSecond'], 1_000);
  if (as !== null) {
    document.set('name', as);
    document.delete('aliases');
  }
  return document.toString();
}
