import { expect, it } from 'vitest';
import { withoutTokens } from '../../src/cli/commands/read-commands.ts';
import { Secret } from '../../src/core/secret.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { pagingParams } from '../../src/definitions/definition.ts';
import { openRecordMask } from '../../src/settings/mask-settings.ts';

it('a trial of a masked entity shows no token of a page: in no path, parameter, body or answer', async () => {
  const definition = loadDefinitions([builtInDefinitionsFolder]).get('workspace-notes');
  const [entity] = [...(definition?.entities.values() ?? [])].filter(
    ({ pagination }) => pagination.kind === 'pageToken',
  );
  if (entity === undefined) throw new Error('expected an entity whose pages have tokens');
  const [name = ''] = pagingParams(entity.pagination).flatMap((param) =>
    param.role === 'tokenParam' ? [param.name] : [],
  );
  const token = 'tok-0123456789';
  const seen = {
    method: 'GET',
    url: `https://api.example/v1/${token}/pages?x=${token}`,
    body: token,
    status: 200,
    ms: 1,
    wireBytes: 1,
    keys: [],
  };
  const request = { entity: entity.name, params: { [name]: token }, isRoot: true };
  const next = { kind: 'call', request, restartedBecause: null } as const;
  const call = { request, page: null, commit: null, problems: [], error: null, next, exchanges: [seen] };
  const rules = { unknownFields: 'keep', fields: new Map() } as const;
  const masked = {
    ...entity,
    mask: openRecordMask(rules, new Secret(Buffer.alloc(32).toString('base64'))),
  };
  expect(JSON.stringify(withoutTokens(masked, call))).not.toContain(token);
  expect(JSON.stringify(withoutTokens(entity, call))).toContain(token);
});
