import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { convert, manifestText, type Stream } from '../../support/import/manifest.ts';

const option = (name: string): string =>
  `{ type: RequestOption, inject_into: request_parameter, field_name: ${name} }`;
const byToken = `paginator: { type: DefaultPaginator, page_token_option: ${option('cursor')}, pagination_strategy: { type: CursorPagination, cursor_value: "{{ response.get('next_cursor') }}" } }`;
const below = (parent: string, field: string, key = 'id'): string =>
  `partition_router: { type: SubstreamPartitionRouter, parent_stream_configs: [{ type: ParentStreamConfig, parent_key: ${key}, partition_field: ${field}, stream: { $ref: '#/definitions/streams/${parent}' } }] }`;
const added = (field: string, value: string): string =>
  `transformations: [{ type: AddFields, fields: [{ path: [${field}], value: ${JSON.stringify(value)} }] }]`;
const paged = (strategy: string, more = ''): string =>
  `paginator: { type: DefaultPaginator, page_token_option: ${option('page')}, ${more} pagination_strategy: ${strategy} }`;
const cursor = (more: string): string =>
  `incremental_sync: { type: DatetimeBasedCursor, cursor_field: updated_at, datetime_format: '%Y-%m-%d', start_datetime: "{{ config['start_date'] }}", ${more} }`;
const dated = {
  spec: 'api_key: { type: string, airbyte_secret: true }, start_date: { type: string, title: First day }',
};
const root = '{ type: RecordSelector, extractor: { type: DpathExtractor, field_path: [] } }';
const filtered = (condition: string): string =>
  `{ type: RecordSelector, extractor: { type: DpathExtractor, field_path: [data] }, record_filter: { type: RecordFilter, condition: ${JSON.stringify(condition)} } }`;

describe('a low-code manifest', () => {
  it('reads boxes below shelves by token, with the shelf in the key', ({ folder }) => {
    const { outcomes, entity, request } = convert(
      folder,
      manifestText({
        boxes: {
          path: '/shelves/{{ stream_partition.shelf_id }}/boxes',
          retriever: `${byToken}\n        ${below('shelves', 'shelf_id')}`,
        },
        shelves: { retriever: byToken },
      }),
    );
    expect(outcomes).toEqual({ shelves: 'converted', boxes: 'converted' });
    expect(entity('boxes')).toMatchObject({
      key: ['shelf_id', 'id'],
      pagination: { kind: 'pageToken', tokenParam: 'cursor' },
      parents: [{ entity: 'shelves', params: { shelf_id: 'id' }, inject: { shelf_id: 'shelf_id' } }],
    });
    expect(request('boxes')).toEqual({
      path: '/v1/shelves/{shelf_id}/boxes',
      records: 'data',
      paging: { kind: 'cursor', token: 'next_cursor' },
    });
  });

  it('adds the parent to keys that are reused below each of them, and to a field of the same name', ({
    folder,
  }) => {
    const label: Stream = {
      path: '/shops/{{ stream_slice.id }}/labels',
      key: 'code',
      fields: 'id: { type: string }, code: { type: number }',
    };
    const { entity } = convert(
      folder,
      manifestText({ shops: {}, labels: { ...label, retriever: below('shops', 'id') } }),
    );
    expect(entity('labels')).toMatchObject({
      key: ['shop_id', 'code'],
      fields: { shop_id: 'string', code: 'integer', id: 'string' },
    });
  });

  it('tells one role under many members apart', ({ folder }) => {
    const { entity } = convert(
      folder,
      manifestText({
        teams: {},
        members: {
          path: '/teams/{{ stream_partition.team_id }}/members',
          retriever: below('teams', 'team_id'),
        },
        roles: {
          path: '/teams/{{ stream_partition.parent_slice.team_id }}/members/{{ stream_partition.member_id }}/roles',
          retriever: below('members', 'member_id'),
        },
      }),
    );
    expect(entity('roles')).toMatchObject({
      key: ['team_id', 'member_id', 'id'],
      parents: [{ entity: 'members', params: { team_id: 'team_id', member_id: 'id' } }],
    });
  });

  it('gives no key to records whose key is made by the clock or by a hash', ({ folder }) => {
    const made = { key: 'made', fields: 'made: { type: string }' };
    const { entity } = convert(
      folder,
      manifestText({
        clicks: { ...made, stream: added('made', '{{ now_utc() }}') },
        views: { ...made, stream: added('made', "{{ record['name'] | hash('md5') }}") },
        mails: { ...made, stream: added('made', "{{ format_datetime(now_utc(), '%Y') }}-{{ record.id }}") },
      }),
    );
    for (const name of ['clicks', 'views', 'mails']) {
      expect(entity(name)).toMatchObject({ key: 'none', deletes: 'never' });
    }
  });

  it('takes a key at a path, and one that a field of the partition is made of', ({ folder }) => {
    const { entity, outcomes } = convert(
      folder,
      manifestText({
        posts: {
          key: '[[meta, id]]',
          fields: 'meta: { type: object, properties: { id: { type: integer } } }',
        },
        replies: {
          path: '/posts/{{ stream_slice.post }}',
          key: '[post_id, id]',
          stream: added('post_id', '{{ stream_slice.post }}'),
          retriever: below('posts', 'post', 'meta.id'),
        },
        odd: { key: 'made', stream: added('made', '{{ record.a * 2 }}') },
      }),
    );
    expect(entity('posts')).toMatchObject({
      key: ['meta_id'],
      at: { meta_id: 'meta.id' },
      fields: { meta_id: 'integer' },
    });
    expect(entity('replies')).toMatchObject({
      key: ['post_id', 'id'],
      parents: [{ params: { post: 'meta.id' }, inject: { post_id: 'post' } }],
    });
    expect(outcomes['odd']).toMatch(/^refused: the field made, which is computed .*\(AddFields, line \d+\)$/);
  });

  it('pages by the Link header, by the last record, by numbers and by offset', ({ folder }) => {
    const link =
      "paginator: { type: DefaultPaginator, page_token_option: { type: RequestPath }, pagination_strategy: { type: CursorPagination, cursor_value: \"{{ headers['link']['next']['url'] }}\" } }";
    const last = paged(
      "{ type: CursorPagination, cursor_value: \"{{ last_records[-1]['id'] }}\", stop_condition: '{{ not response.has_more }}' }",
    );
    const { entity, request, outcomes } = convert(
      folder,
      manifestText({
        repos: { records: root, retriever: link },
        charges: { retriever: last },
        rows: { retriever: paged('{ type: PageIncrement, page_size: 50 }') },
        lines: { retriever: paged('{ type: OffsetIncrement, page_size: 30 }') },
        done: {
          retriever: paged(
            "{ type: CursorPagination, cursor_value: '{{ response.token }}', stop_condition: '{{ response.done == true }}' }",
          ),
        },
        next: {
          retriever: paged(
            '{ type: CursorPagination, cursor_value: "{{ response.links.next.split(\'page=\')[1] }}" }',
          ),
        },
        sums: {
          retriever: paged(
            "{ type: CursorPagination, cursor_value: '{{ response.page + 1 }}', stop_condition: '{{ response.page >= response.pages }}' }",
          ),
        },
      }),
    );
    expect(request('repos')).toMatchObject({ records: '', paging: { kind: 'linkHeader', keep: 'any' } });
    expect(entity('charges')).toMatchObject({
      pagination: { kind: 'lastRecord', field: 'id', flagKeys: ['has_more'] },
    });
    expect(request('charges')).toMatchObject({ metadata: { has_more: 'has_more' } });
    expect(entity('rows')).toMatchObject({
      pagination: { kind: 'page', pageParam: 'page', first: 0, maxSize: 50 },
    });
    expect(entity('lines')).toMatchObject({
      pagination: { kind: 'offset', offsetParam: 'page', sizeParam: null, maxSize: 30 },
    });
    expect(entity('done')).toMatchObject({ pagination: { kind: 'pageToken', doneKeys: ['is_last'] } });
    expect(entity('next')).toMatchObject({
      pagination: { tokenKeys: [{ key: 'next_page', param: 'page' }] },
    });
    expect(outcomes['sums']).toMatch(/^todo: write the number of the first page/);
  });

  it('refuses paging that cannot move, and paging by code', ({ folder }) => {
    const { outcomes } = convert(
      folder,
      manifestText({
        arrays: { records: root, retriever: byToken },
        stuck: {
          retriever:
            'paginator: { type: DefaultPaginator, pagination_strategy: { type: PageIncrement, page_size: 5 } }',
        },
        own: {
          retriever: paged('{ type: CustomPaginationStrategy, class_name: source_shop.components.Pages }'),
        },
      }),
    );
    expect(outcomes['arrays']).toMatch(
      /^refused: paging that cannot move: the answer is the list itself.*\(CursorPagination, line \d+\)$/,
    );
    expect(outcomes['stuck']).toMatch(
      /^refused: paging that cannot move: no place of the request takes the next page \(DefaultPaginator, line \d+\)$/,
    );
    expect(outcomes['own']).toMatch(/^refused: paging of this type \(Pages, line \d+\)$/);
  });

  it('asks for changes since a first value, and reads all from there where pages are counted', ({
    folder,
  }) => {
    const start = `start_time_option: ${option('since')}`;
    const { entity, request, data } = convert(
      folder,
      manifestText(
        {
          calls: { retriever: byToken, stream: cursor(start) },
          items: {
            retriever: paged('{ type: PageIncrement, page_size: 50, start_from_page: 1 }'),
            stream: cursor(start),
          },
          notes: { stream: cursor('is_client_side_incremental: true') },
        },
        dated,
      ),
    );
    expect(entity('calls')).toMatchObject({
      incremental: {
        kind: 'since',
        field: 'updated_at',
        sinceParam: 'since',
        sinceFormat: '%Y-%m-%d',
        first: { field: 'start_date' },
      },
    });
    expect(entity('items')).not.toHaveProperty('incremental');
    expect(request('items')).toMatchObject({ query: { since: { field: 'start_date_as_sent' } } });
    expect(entity('notes')).not.toHaveProperty('incremental');
    expect(data['settings']).toMatchObject({ start_date: { title: 'First day' } });
  });

  it('reads a report without a key by days', ({ folder }) => {
    const { entity } = convert(
      folder,
      manifestText(
        {
          visits: {
            key: '[]',
            stream: cursor(
              `step: P1D, lookback_window: P3D, cursor_granularity: P1D, start_time_option: ${option('from')}, end_time_option: ${option('to')}`,
            ),
          },
        },
        dated,
      ),
    );
    expect(entity('visits')).toMatchObject({
      key: 'none',
      incremental: {
        kind: 'windows',
        fromParam: 'from',
        toParam: 'to',
        format: '%Y-%m-%d',
        step: { days: 1 },
        lookbackMs: 259_200_000,
        first: { field: 'start_date' },
      },
    });
  });

  it('keeps a filter by equality, drops one by time, and refuses others', ({ folder }) => {
    const { entity, outcomes } = convert(
      folder,
      manifestText({
        open: { records: filtered("{{ record.state == 'open' }}") },
        some: { records: filtered("{{ record['state'] in ['a', 'b'] and not record.gone }}") },
        recent: {
          records: filtered(
            "{{ record.updated_at >= stream_state.get('updated_at', config['start_date']) }}",
          ),
        },
        odd: { records: filtered("{{ record.tags | selectattr('name') | list }}") },
      }),
    );
    expect(entity('open')['only']).toEqual({ field: 'state', value: 'open' });
    expect(entity('some')['only']).toEqual([
      { field: 'state', values: ['a', 'b'] },
      { field: 'gone', value: true, not: true },
    ]);
    expect(entity('recent')).not.toHaveProperty('only');
    expect(outcomes['odd']).toMatch(
      /^refused: a filter that is computed \(a call of selectattr\) \(RecordFilter, line \d+\)$/,
    );
  });

  it('lists each of a list of values, and refuses two independent parents', ({ folder }) => {
    const colors = `partition_router: { type: ListPartitionRouter, values: [red, blue], cursor_field: color, request_option: ${option('color')} }`;
    const two = `partition_router: [{ ${below('users', 'user').slice('partition_router: {'.length)}, { ${below('years', 'year').slice('partition_router: {'.length)}]`;
    const { entity, outcomes } = convert(
      folder,
      manifestText({
        paints: { retriever: colors },
        users: {},
        years: {},
        sums: { path: '/sums/{{ stream_slice.user }}/{{ stream_slice.year }}', retriever: two },
      }),
    );
    expect(entity('paints')).toMatchObject({
      each: { color: ['red', 'blue'] },
      inject: { color: 'color' },
      key: ['color', 'id'],
    });
    expect(outcomes['sums']).toMatch(/^refused: two independent parents \(SimpleRetriever, line \d+\)$/);
  });

  it('writes texts around values, a GET with a body, and places within the value of a parent', ({
    folder,
  }) => {
    const interval = "'[{{ stream_slice.start_time }}, {{ stream_slice.end_time }}]'";
    const { entity, request, outcomes } = convert(
      folder,
      manifestText(
        {
          users: {
            fields: 'account: { type: object, properties: { id: { type: string } } }, id: { type: string }',
          },
          rows: {
            path: '/rows',
            requester: `request_parameters: { between: ${JSON.stringify(interval)}, user: "id:{{ stream_slice.user.id }}" }`,
            stream: cursor('step: P1M'),
            retriever: below('users', 'user', 'account'),
          },
          lines: {
            requester: `request_parameters: { limit: "'{{ next_page_token.next_page_token or '0' }},50'" }`,
            retriever:
              'paginator: { type: DefaultPaginator, pagination_strategy: { type: OffsetIncrement, page_size: 50 } }',
          },
          odd: { requester: 'request_body_json: { mode: full }' },
          named: { requester: `request_parameters: { since: "{{ stream_slice['nothing'] }}" }` },
          secret: {
            requester: `request_parameters: { q: "{{ next_page_token.x or '' }}:{{ config.api_key }}" }`,
          },
        },
        dated,
      ),
    );
    expect(request('rows')['query']).toEqual({
      between: { template: '[{from}, {to}]' },
      user: { template: 'id:{user.id}' },
    });
    expect(entity('rows')).toMatchObject({
      incremental: { fromParam: 'from', toParam: 'to' },
      parents: [{ params: { 'user.id': 'account.id' } }],
    });
    expect(request('lines')['query']).toEqual({ limit: { template: '{limit},50' } });
    expect(entity('lines')).toMatchObject({ pagination: { kind: 'offset', offsetParam: 'limit' } });
    expect(request('odd')).toMatchObject({ body: { mode: 'full' }, bodyAs: 'json' });
    expect(request('named')).not.toHaveProperty('query');
    expect(outcomes['secret']).toMatch(
      /^refused: a secret inside a longer text \(HttpRequester, line \d+\)$/,
    );
  });

  it('keeps the way to sign in that works beside one of code', ({ folder }) => {
    const auth = `{ type: SelectiveAuthenticator, authenticator_selection_path: [kind], authenticators: { token: { type: BearerAuthenticator, api_token: "{{ config['api_key'] }}" }, signed: { type: CustomAuthenticator, class_name: source_shop.components.Signer } } }`;
    const { data, outcomes } = convert(folder, manifestText({ things: {} }, { auth }));
    expect(outcomes['things']).toBe('converted');
    expect(data).toMatchObject({
      credentials: [{ title: 'Token', fields: { api_key: {} } }],
      upstream: { auth: { Token: { kind: 'bearer', token: { field: 'api_key' } } } },
    });
    const custom = convert(
      folder,
      manifestText({ things: {} }, { auth: '{ type: CustomAuthenticator, class_name: a.b.Signer }' }),
    );
    expect(custom.outcomes['things']).toMatch(/^refused: a sign-in of this type \(Signer, line \d+\)$/);
  });

  it('makes settings of values of the connector, and never writes a secret', ({ folder }) => {
    const { data, request, upstream, definition } = convert(
      folder,
      manifestText(
        {
          things: {
            path: "/accounts/{{ config['account'] }}/things",
            requester:
              "request_parameters: { lang: \"{{ config.get('lang') or 'en' }}\", hook: \"{{ config['hook'] }}\", mode: full }",
          },
        },
        {
          url: "{{ 'https://api.eu.example' if config['region'] == 'EU' else 'https://api.example' }}",
          spec: 'api_key: { type: string, airbyte_secret: true }, account: { type: string, title: Account id }, lang: { type: string }, hook: { type: string, airbyte_secret: true, default: s3cret }, region: { type: string, enum: [EU, US] }',
        },
      ),
    );
    expect(request('things')).toMatchObject({
      path: '/accounts/{account}/things',
      query: { lang: { field: 'lang' }, hook: { field: 'hook' }, mode: 'full' },
    });
    expect(data['settings']).toMatchObject({
      account: { title: 'Account id' },
      lang: { required: false, default: 'en' },
      hook: { secret: true },
      region: { values: ['EU', 'US'] },
    });
    expect(upstream).toMatchObject({
      baseUrl: 'https://{region}',
      host: { region: { map: { EU: 'api.eu.example', US: 'api.example' } } },
    });
    expect(definition).not.toContain('s3cret');
  });

  it('writes services without a sign-in, by a login, by a password and by a key in the body', ({
    folder,
  }) => {
    const authOf = (auth: string): unknown =>
      convert(
        folder,
        manifestText(
          { things: { requester: 'http_method: POST' } },
          { auth, spec: 'user: { type: string }, pw: { type: string, airbyte_secret: true }' },
        ),
      ).upstream['auth'];
    expect(authOf('{ type: NoAuth }')).toEqual({ 'No sign-in': { kind: 'none' } });
    expect(
      authOf(
        `{ type: SessionTokenAuthenticator, session_token_path: [data, token], expiration_duration: PT1H, request_authentication: { type: Bearer }, login_requester: { type: HttpRequester, url_base: 'https://api.corner-shop.example', path: login, http_method: POST, request_body_json: { user: "{{ config['user'] }}", password: "{{ config['pw'] }}" } } }`,
      ),
    ).toEqual({
      'User and password': {
        kind: 'login',
        url: 'https://api.corner-shop.example/login',
        method: 'POST',
        body: { user: { field: 'user' }, password: { field: 'pw' } },
        token: 'data.token',
        lifetimeMs: 3_600_000,
      },
    });
    expect(
      authOf(
        `{ type: SessionTokenAuthenticator, session_token_path: [token], request_authentication: { type: Bearer }, login_requester: { type: HttpRequester, url_base: 'https://id.example', path: "{{ config['user'] }}/token", authenticator: { type: BasicHttpAuthenticator, username: "{{ config['user'] }}", password: "{{ config['pw'] }}" } } }`,
      ),
    ).toMatchObject({
      'User and password': {
        url: 'https://id.example/{user}/token',
        method: 'GET',
        form: {},
        sign: { kind: 'basic', user: { field: 'user' }, password: { field: 'pw' } },
      },
    });
    expect(
      authOf(
        `{ type: ApiKeyAuthenticator, api_token: "{{ config['pw'] }}", inject_into: { type: RequestOption, inject_into: body_json, field_name: key } }`,
      ),
    ).toEqual({ 'API key': { kind: 'body', at: 'key', value: { field: 'pw' } } });
    expect(
      authOf(
        `{ type: OAuthAuthenticator, token_refresh_endpoint: 'https://id.example/token', client_id: "{{ config['user'] }}", client_secret: "{{ config['pw'] }}", refresh_token: "{{ config['pw'] }}", refresh_request_body: { audience: all } }`,
      ),
    ).toMatchObject({
      OAuth: { kind: 'refresh', tokenUrl: 'https://id.example/token', params: { audience: 'all' } },
    });
  });

  it('refuses what cannot be read, each by its component and line, and children with their parents', ({
    folder,
  }) => {
    const { outcomes } = convert(
      folder,
      manifestText({
        things: {},
        plain: { requester: "url_base: 'http://api.corner-shop.example'" },
        hosts: {
          requester: 'url_base: "https://{{ stream_partition.host }}"',
          retriever: below('things', 'host'),
        },
        jobs: { retriever: 'type: AsyncRetriever' },
        code: {
          records:
            '{ type: RecordSelector, extractor: { type: CustomRecordExtractor, class_name: a.b.Rows } }',
        },
        unknown: { stream: 'transformations: [{ type: Sparkle }]' },
        unused: { retriever: below('things', 'thing') },
        again: { path: '/things' },
        csv: { retriever: 'decoder: { type: CsvDecoder }' },
        child: { path: '/code/{{ stream_partition.c }}', retriever: below('code', 'c') },
      }),
    );
    expect(outcomes).toMatchObject({
      things: 'converted',
      plain: expect.stringMatching(
        /^refused: an address that is not https .*\(HttpRequester, line \d+\)$/,
      ) as string,
      hosts: expect.stringMatching(
        /^refused: a host that is not fixed \(slice\.host\) \(HttpRequester, line \d+\)$/,
      ) as string,
      jobs: expect.stringMatching(
        /^refused: a retriever of this type \(AsyncRetriever, line \d+\)$/,
      ) as string,
      code: expect.stringMatching(/^refused: an extractor of this type \(Rows, line \d+\)$/) as string,
      unknown: expect.stringMatching(
        /^refused: a transformation of this type \(Sparkle, line \d+\)$/,
      ) as string,
      unused: expect.stringMatching(/^refused: a parent whose value the request never uses/) as string,
      again: expect.stringMatching(
        /^refused: its request is that of things: both would have the same records/,
      ) as string,
      csv: expect.stringMatching(/^refused: answers that are no JSON \(CsvDecoder, line \d+\)$/) as string,
      child: expect.stringMatching(
        /^refused: its parent code cannot be read: an extractor of this type/,
      ) as string,
    });
  });

  it('takes a name, a path and a key from parameters, and follows references into lists', ({ folder }) => {
    const text = manifestText({ things: {} })
      .replace(
        "streams:\n  - $ref: '#/definitions/streams/things'",
        `streams:
  - type: DeclarativeStream
    $parameters: { name: orders, path: /orders, primary_key: [number], data: rows }
    schema_loader: { type: InlineSchemaLoader, schema: { type: object, properties: { number: { type: number } } } }
    retriever:
      requester: { $ref: '#/definitions/list/1' }
      record_selector: { extractor: { field_path: ["{{ parameters['data'] }}"] } }`,
      )
      .replace(
        'definitions:\n',
        "definitions:\n  list: [{ type: None }, { $ref: '#/definitions/requester' }]\n",
      );
    const { entity, request } = convert(folder, text);
    expect(entity('orders')).toMatchObject({ key: ['number'], fields: { number: 'integer' } });
    expect(request('orders')).toMatchObject({ path: '/v1/orders', records: 'rows' });
  });
});
