import { expect, it } from 'vitest';
import { readUpstreamMessage } from '../../../src/source/api/call-failure.ts';

it('says once what a service says in several members', () => {
  const body = {
    message: 'List not found',
    detail: 'List not found ',
    errors: [{ message: 'List not found', details: 'List not found: a1' }, { message: 'Try another' }],
  };
  expect(readUpstreamMessage(JSON.stringify(body))).toMatchObject({
    text: 'List not found: a1; Try another',
    isJson: true,
  });
});
