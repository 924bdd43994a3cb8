import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openServiceState, type ServiceStateOptions } from '../../../src/service/state/open-service-state.ts';
import { packFolder, packJson } from './packed-files.ts';

// Makes the data of a service: `node --import tsx test/support/stored/make-service.ts`, in the sources of the version
// whose data is wanted, with this folder put there.
const folder = mkdtempSync(join(tmpdir(), 'service-'));
const options: ServiceStateOptions = {
  folder,
  key: Buffer.alloc(32, 7),
  clock: { now: () => Date.UTC(2026, 0, 1), sleep: () => Promise.resolve() },
  tokenTtlSeconds: 900,
  scopedTokenTtlSeconds: 1200,
  maxTokens: 1000,
  tokensPerSecond: 10_000,
};
const state = openServiceState(options);
const application = state.applications.put({
  organizationName: 'acme',
  clientId: 'client-of-acme',
  clientSecret: 'secret-of-acme',
});
const { organizationId } = application;
state.applications.put({ organizationName: 'other', clientId: 'client-of-other', clientSecret: 'secret' });
const [sales, renamed, deleted] = ['Sales', 'Bücher', 'deleted'].map((name) =>
  state.workspaces.ensure(organizationId, name),
);
if (sales === undefined || renamed === undefined || deleted === undefined) throw new Error('no workspace');
state.workspaces.update(organizationId, renamed.id, {
  name: 'Éditions',
  status: 'inactive',
  isCacheEnabled: false,
});
const connector = {
  organizationId,
  workspaceId: sales.id,
  definition: 'email-marketing',
  replicationConfig: { replication: { deep: [1, { a: null }] }, environment: {}, entities: null },
};
state.connectors.create({ ...connector, id: 'sample', name: 'Sample', credentials: null });
state.connectors.create({
  ...connector,
  id: 'real',
  name: 'Newsletter 📰',
  credentials: { api_key: 'key-0', big: 9_007_199_254_740_993n },
  account: 'account-1',
});
const { token } = state.tokens.issueApplication(application);
const principal = state.tokens.find(token);
if (principal === null) throw new Error('no principal');
const scoped = state.tokens.issueScoped(principal, sales.id).token;
state.workspaces.delete(organizationId, deleted.id);
state.audit.note(principal, 'connector.created', 'real', ['name', 'credentials']);

packJson(
  {
    applications: state.applications.list(),
    workspaces: state.workspaces.list(organizationId, {
      nameContains: null,
      status: null,
      limit: 9,
      after: null,
    }),
    connectors: state.connectors.all(),
    audit: state.audit.list(organizationId, 9),
    principals: [principal, state.tokens.find(scoped)],
    tokens: [token, scoped],
    deleted: deleted.id,
  },
  'service-expected.json.br',
);
state[Symbol.dispose]();
packFolder(folder, 'service.json.br');
rmSync(folder, { recursive: true });
