import { expect, it } from 'vitest';
import {
  credentials,
  definitions,
  mailing,
  sampleAccounts,
  serveApi,
} from '../support/service/served-api.ts';

it('writes an integer that a double cannot hold with all its digits', async () => {
  await using api = await serveApi({
    ...credentials,
    definitions,
    accounts: sampleAccounts('tiny').map((account) => ({
      ...account,
      wrap: (inner) => ({
        ...inner,
        list: inner.list.bind(inner),
        get: (entity, params) => ({ ...inner.get(entity, params), web_id: 9_007_199_254_740_993n }),
      }),
    })),
  });
  const response = await fetch(`${api.service.url}/api/v1/integrations/connectors/${mailing}/execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${api.token}` },
    body: JSON.stringify({ entity: 'lists', action: 'get', params: { list_id: 'any' } }),
  });
  expect(response.status).toBe(200);
  expect(await response.text()).toContain('"web_id":9007199254740993');
});
