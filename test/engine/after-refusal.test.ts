import { expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import { afterRefusal } from '../../src/engine/walk.ts';

const refused = new SyncError('items list was answered with 404', {
  code: 'NOT_FOUND',
  recovery: 'skip-partition',
});

it('takes a refused page for an empty one where nothing was expected behind the last page', () => {
  expect(afterRefusal(() => 'empty', refused)).toMatchObject({
    page: { records: { length: 0 }, next: null },
  });
});

it('keeps a refusal that may be the end a failure, and says what the definition lacks', () => {
  const { error } = afterRefusal(() => 'perhapsEmpty', refused) as { error: SyncError };
  expect(error).toMatchObject({ code: 'NOT_FOUND', recovery: 'skip-partition' });
  expect(error.message).toContain('the paging of the definition needs its end');
});

it('leaves every other failure as it is', () => {
  const network = new SyncError('no answer', { code: 'NETWORK', recovery: 'retry' });
  for (const error of [network, new TypeError('a defect')]) {
    expect(afterRefusal(() => 'empty', error)).toEqual({ error });
  }
  expect(afterRefusal(() => null, refused)).toEqual({ error: refused });
});
