import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { notFound } from '../service/api-error.ts';
import {
  departureOf,
  findMember,
  indexCount,
  isInterested,
  type MailingList,
  mailingTime,
  memberId,
  memberListing,
  memberRecord,
  membersOf,
  mergeFields,
  optedInAt,
  personOf,
  slotOf,
  stateOf,
  statusIn,
  traitsOf,
} from './mailing-members.ts';
import {
  campaignTitles,
  categoryTitles,
  eventNames,
  linked,
  listNames,
  tagNames,
  template,
} from './mailing-templates.ts';
import {
  accountOf,
  computedListing,
  entityOf,
  knownThing,
  type Listing,
  remembered,
  type SampleAccount,
  type SampleSize,
  timeTest,
} from './sample-account.ts';
import { type Thing, Things } from './sample-things.ts';
import {
  dayMs,
  dayOf,
  type Dice,
  diceFor,
  hourMs,
  revisionTime,
  sampleStart,
  textOf,
  titleAt,
} from './sample-values.ts';

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const things = new Things(seed, idOf, []);
  fillMailing(
    things,
    typeof size === 'string' ? shapes[size] : { ...shapes.members, members: [size.members] },
  );
  things.play(revision, reviseMailing);
  const listOf = remembered((list: Thing) => mailingList(things, list));
  const campaignOf = remembered((campaign: Thing) => planCampaign(things, campaign, listOf));
  const listIn = ({ list_id: id }: Params): MailingList => listOf(knownThing(things, 'lists', id));
  const segmentIn = ({ segment_id: id }: Params): Thing => knownThing(things, 'segments', id);
  const membersIn = (segment: Thing): Uint32Array => segmentMembers(things, segment, listOf);
  const sentIn = ({ campaign_id: id }: Params): Campaign => {
    const campaign = campaignOf(knownThing(things, 'campaigns', id));
    if (campaign.sentAt !== null) return campaign;
    // A draft has no report and nothing under it: 404, as for a campaign that does not exist.
    throw notFound('Resource Not Found: there is no report with this id in the account.');
  };
  const list = '/lists/{list_id}';
  const categories = `${list}/interest-categories`;
  const below = ['lists', 'list_id'] as const;
  const entity = (path: string, ...of: Tail<Parameters<typeof entityOf>>) =>
    linked(path, entityOf(things, ...of));
  const toList = (one: Thing) => listRecord(things, one, listOf(one), things.of('campaigns').map(campaignOf));
  const toCampaign = (kind: string) => (one: Thing) => campaignRecord(kind, campaignOf(one));
  return accountOf({
    lists: entity('/lists', 'lists', toList, {
      id: 'list_id',
      filters: ['date_created', 'stats.campaign_last_sent'],
      where: (one, { email }) =>
        email === undefined || findMember(listOf(one), memberId(textOf(email))) !== null,
    }),
    campaigns: entity('/campaigns', 'campaigns', toCampaign('campaigns'), {
      id: 'campaign_id',
      filters: ['type', 'status', 'send_time', 'create_time', 'recipients.list_id', 'settings.folder_id'],
    }),
    automations: entity('/automations', 'automations', (one) => automationRecord(things, one), {
      filters: ['status', 'create_time', 'start_time'],
    }),
    reports: entity('/reports', 'campaigns', toCampaign('reports'), {
      id: 'campaign_id',
      filters: ['type', 'send_time'],
      where: (one) => campaignOf(one).sentAt !== null,
    }),
    email_activity: linked('/reports/{campaign_id}/email-activity', {
      list: (params) => activityListing(sentIn(params), params),
    }),
    unsubscribes: linked('/reports/{campaign_id}/unsubscribed', {
      list: (params) => leaverListing(sentIn(params)),
    }),
    list_members: linked(`${list}/members`, {
      list: (params) => memberListing(listIn(params), params),
      get: (params) => findMember(listIn(params), textOf(params['subscriber_hash'])) ?? undefined,
    }),
    tags: entity(`${list}/tag-search`, 'segments', ({ id, text }) => ({ id: Number(id), name: text }), {
      below,
      where: ({ type, text }, { name }) =>
        type === 'static' && text.toLowerCase().startsWith(textOf(name).toLowerCase()),
    }),
    interest_categories: entity(categories, 'interest_categories', (one) => categoryRecord(things, one), {
      id: 'interest_category_id',
      below,
    }),
    interests: entity(
      `${categories}/{interest_category_id}/interests`,
      'interests',
      (one) => interestRecord(things, one, listOf),
      { id: 'interest_id', below: ['interest_categories', 'interest_category_id'] },
    ),
    segments: entity(
      `${list}/segments`,
      'segments',
      (one) => segmentRecord(things, one, membersIn(one).length),
      {
        id: 'segment_id',
        below,
        filters: ['type', 'created_at', 'updated_at'],
      },
    ),
    segment_members: linked(`${list}/segments/{segment_id}/members`, {
      list: (params) => segmentMemberListing(listIn(params), membersIn(segmentIn(params))),
    }),
  });
}

type Tail<List extends readonly unknown[]> = List extends readonly [unknown, ...infer Rest] ? Rest : never;

const shapes = {
  small: { members: [2300, 900, 430, 57, 1, 0], campaigns: 30, automations: 7, tags: 5, categories: 3 },
  tiny: { members: [23, 0], campaigns: 5, automations: 2, tags: 2, categories: 1 },
  // Nearly all calls go to the members: that is what the size is for.
  members: { members: [0], campaigns: 2, automations: 1, tags: 0, categories: 1 },
};
type Shape = Omit<typeof shapes.small, 'members'> & { readonly members: readonly number[] };
type ListOf = (list: Thing) => MailingList;

/** Ids of segments are numbers. */
function idOf(kind: string, dice: Dice, index: number): string {
  return kind === 'segments' ? String(13_000_000 + (index % 10_000_000)) : dice.hex(10);
}

/** The account before all revisions. Later lists have fewer tags and categories, empty ones none. */
function fillMailing(things: Things, shape: Shape): void {
  const lists = shape.members.map((members, index) => {
    const [createdAt, text] = [sampleStart + index * 40 * dayMs, titleAt(listNames, index)];
    return things.add({ kind: 'lists', index, text, parent: null, createdAt, type: String(members) });
  });
  const inhabited = lists.filter(({ type }) => type !== '0');
  for (const list of inhabited) fillList(things, list, shape);
  const parentOf = (index: number): Thing | null => inhabited[index % inhabited.length] ?? null;
  for (let index = 0; index < shape.campaigns && inhabited.length > 0; index += 1) {
    const seconds = diceFor(things.seed, 3, index).below(86_400);
    const createdAt = sampleStart + (250 + index * 9) * dayMs + seconds * 1_000;
    things.add({
      kind: 'campaigns',
      index,
      text: titleAt(campaignTitles, index),
      parent: parentOf(index),
      createdAt,
    });
  }
  for (let index = 0; index < shape.automations; index += 1) {
    const createdAt = sampleStart + index * 31 * dayMs;
    things.add({ kind: 'automations', index, text: '', parent: parentOf(index), createdAt });
  }
}

function fillList(things: Things, list: Thing, shape: Shape): void {
  const tags = tagNames.slice(0, Math.max(0, shape.tags - list.index));
  const searches = tags.length === 0 ? [] : ['Active in the last 30 days', 'Bought twice in December'];
  for (const [place, text] of [...tags, ...searches].entries()) {
    const type = place < tags.length ? 'static' : 'saved';
    const createdAt = list.createdAt + place * dayMs;
    things.add({ kind: 'segments', index: list.index * 100 + place, type, text, parent: list, createdAt });
  }
  for (const [place, titles] of categoryTitles
    .slice(0, Math.max(0, shape.categories - list.index))
    .entries()) {
    const [title = '', ...interests] = titles.split('|');
    const { createdAt } = list;
    const index = list.index * 100 + place * 10;
    const category = things.add({ kind: 'interest_categories', index, text: title, parent: list, createdAt });
    for (const [at, text] of interests.entries()) {
      things.add({ kind: 'interests', index: index + at, text, parent: category, createdAt });
    }
  }
}

/**
 * Every revision edits a campaign, an automation, a search and a category, and adds a campaign, which is sent two
 * revisions later. Lists, automations, segments and categories come and go; an empty list and a sent campaign go and
 * come back.
 */
function reviseMailing(things: Things): void {
  const { revision } = things;
  const day = dayOf(revision);
  const [first] = things.of('lists');
  if (first === undefined) return;
  if (revision % 5 === 4) things.rename(things.turn('lists'));
  const isEmpty = ({ type }: Thing): boolean => type === '0';
  if (revision % 4 === 3) things.take(things.turn('lists', 0, isEmpty), 1);
  things.comeAndGo('lists', () => things.addNew('lists', null, titleAt(eventNames, (revision - 1) / 3)));
  things.rename(things.turn('campaigns'));
  const host = things.turn('lists', 0, (list) => !isEmpty(list)) ?? first;
  const addCampaign = () => things.addNew('campaigns', host, `Weekly letter of ${day}`);
  things.comeAndGo('campaigns', addCampaign);
  if (revision % 3 !== 1) addCampaign();
  if (revision % 5 === 3) things.take(things.first('campaigns', ({ index }) => isOut(index)).at(-1));
  things.edit(things.turn('automations'));
  things.comeAndGo('automations', () => things.addNew('automations', first, ''));
  things.rename(things.turn('segments', 0, ({ type }) => type === 'saved'));
  things.comeAndGo('segments', () => {
    things.addNew('segments', first, `Open house ${day}`, 0, 'static');
    things.addNew('segments', first, `Clicked on ${day}`, 1, 'saved');
  });
  const category = things.turn('interest_categories');
  things.rename(category);
  things.rename(things.of('interests', category)[0]);
  things.comeAndGo('interest_categories', () => {
    const text = `Which event in ${day.split(' ')[1]} suits you?`;
    const added = things.addNew('interest_categories', first, text);
    things.addNew('interests', added, 'Evenings');
    things.addNew('interests', added, 'Weekends', 1);
  });
}

/** A list as its members see it. Those that revisions add are short. */
function mailingList(things: Things, list: Thing): MailingList {
  const { seed, revision } = things;
  const { id, index, type = '5', createdAt, madeIn } = list;
  const next = things.of('lists').find((one) => one.index === index + 1);
  const interests = things.of('interest_categories', list).flatMap((category) =>
    things
      .of('interests', category)
      // An interest of a revision is in no member's record: it would change the records of them all.
      .filter((interest) => interest.madeIn === 0)
      .map((interest) => ({ id: interest.id, categoryId: category.id, stride: strideOf(interest) })),
  );
  const tags = things.of('segments', list).filter((segment) => segment.type === 'static');
  return {
    seed,
    revision,
    index,
    id,
    memberCount: Number(type),
    interests,
    firstPerson: madeIn === 0 ? index * 5 : 4e7 + index,
    isPassedThrough: madeIn === 0 && Number(next?.type ?? 0) >= 10,
    importedAt: createdAt + (madeIn === 0 ? dayMs : 6e4),
    spanMs: madeIn === 0 ? 900 * dayMs : 2e3,
    tags: tags.map((tag) => ({
      id: Number(tag.id),
      name: tag.text,
      slots: slotsIn(things, tag),
    })),
  };
}

/** Every so many-th member has an interest. */
function strideOf({ index }: Thing): number {
  return 2 + (index % 7) * 3;
}

/** Members of these slots are in a segment. */
function slotsIn(things: Things, segment: Thing): readonly number[] {
  const { type, madeIn, index } = segment;
  if (type === 'saved') return madeIn > 0 ? [7] : index % 2 === 0 ? [] : [0, 3, 5];
  const dice = things.dice(segment, 1);
  return madeIn > 0 ? [] : Array.from({ length: 20 }, (_, slot) => slot).filter(() => dice.chance(25));
}

function segmentMembers(things: Things, segment: Thing, listOf: ListOf): Uint32Array {
  if (segment.parent === null) return new Uint32Array();
  const list = listOf(segment.parent);
  const slots = new Set<number | null>(slotsIn(things, segment));
  return membersOf(list).filter(
    (index) => slots.has(slotOf(list, index)) && stateOf(list, index).status === 'subscribed',
  );
}

const inNoSegment =
  'contact_id|web_id|consents_to_one_to_one_messaging|source|tags_count|tags|marketing_permissions|' +
  'sms_phone_number|sms_subscription_status|sms_subscription_last_updated';
const leftOut = new Set(inNoSegment.split('|'));

/** Members of a segment are shorter records than members of a list, and do not say which segment they are in. */
function segmentMemberListing(list: MailingList, members: Uint32Array): Listing {
  return computedListing(members.length, (position) => {
    const fields = Object.entries(memberRecord(list, members[position] ?? 0));
    return Object.fromEntries(fields.filter(([name]) => !leftOut.has(name)));
  });
}

/** Longer than what the API shows of a text when it shortens them. */
const longText = 'Everything that happened since the last letter, in the order in which it happened. '
  .repeat(4)
  .trim();

function listRecord(
  things: Things,
  thing: Thing,
  list: MailingList,
  campaigns: readonly Campaign[],
): JsonObject {
  const { id, index, text, createdAt } = thing;
  const own = campaigns.filter((campaign) => campaign.list === list);
  const sent = Math.max(0, ...own.map(({ sentAt }) => sentAt ?? 0));
  const members = membersOf(list);
  const counts = statusCounts(list);
  const last = indexCount(list) - 1;
  const unsubscribed = counts.get('unsubscribed') ?? 0;
  const left = list.revision > 0 ? revisionTime(list.revision) : list.importedAt + list.spanMs;
  const values = {
    subscribed: counts.get('subscribed') ?? 0,
    unsubscribed,
    cleaned: counts.get('cleaned') ?? 0,
    contacts: members.length,
    campaigns: own.length,
    sent: sent === 0 ? '' : mailingTime(sent),
    joined: last < 0 ? '' : mailingTime(optedInAt(list, last)),
    left: unsubscribed === 0 ? '' : mailingTime(left),
  };
  const dice = things.dice(thing, 1);
  const stats = template('stats', values, dice);
  const reminder = `You are receiving this email because you opted in via our website.${index % 2 === 1 ? longText : ''}`;
  return template('lists', { id, text, reminder, created: mailingTime(createdAt), stats }, dice);
}

const statusCounts = remembered((list: MailingList) => {
  const counts = new Map<string, number>();
  for (const index of membersOf(list)) {
    const { status } = stateOf(list, index);
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return counts;
});

function segmentRecord(things: Things, segment: Thing, members: number): JsonObject {
  const { id, type = '', text, parent, index, createdAt, madeIn } = segment;
  const dice = things.dice(segment, 1);
  // Members come, go and change with every revision.
  const changed = things.revision > 0 ? revisionTime(things.revision) : createdAt + (index % 2) * 9 * dayMs;
  const times = {
    created: mailingTime(createdAt),
    updated: mailingTime(Math.max(changed, madeIn > 0 ? createdAt : 0)),
  };
  const values = { number: Number(id), text, members, type, list: parent?.id ?? '', ...times };
  return template('segments', { ...values, condition: template(type, values, dice) }, dice);
}

function categoryRecord(things: Things, category: Thing): JsonObject {
  const { id, text, parent, index } = category;
  const values = { id, text, list: parent?.id ?? '', place: Math.floor(index / 10) % 10 };
  return template('interest_categories', values, things.dice(category, 1));
}

/** `subscriber_count` is a text, as the third party sends it. */
function interestRecord(things: Things, interest: Thing, listOf: ListOf): JsonObject {
  const { id, text, parent, index, madeIn } = interest;
  const list = parent?.parent ?? null;
  const has = (of: MailingList) => (member: number) => isInterested(of, member, strideOf(interest));
  const count = list === null || madeIn > 0 ? 0 : membersOf(listOf(list)).filter(has(listOf(list))).length;
  const values = {
    id,
    text,
    category: parent?.id ?? '',
    list: list?.id ?? '',
    count: String(count),
    place: 1 + (index % 10),
  };
  return template('interests', values, things.dice(interest, 1));
}

/** Revisions start, pause and resume them in turns. The second of every three is a draft until its first turn. */
function automationRecord(things: Things, automation: Thing): JsonObject {
  const { id, index, parent, edits, madeIn, createdAt } = automation;
  const isDraft = madeIn > 0 || (index % 3 === 1 && edits === 0);
  const isSending = !isDraft && (edits + (index % 3 === 0 ? 0 : 1)) % 2 === 0;
  const dice = things.dice(automation, 1);
  // One that was never started has no time, and says so with an empty text.
  const sent = isDraft ? 0 : dice.below(4_000) + edits;
  const started = isDraft ? '' : mailingTime(createdAt + dayMs);
  const status = isSending ? 'sending' : isDraft ? 'save' : 'paused';
  const list = { list: parent?.id ?? '', listName: parent?.text ?? '' };
  return template(
    'automations',
    { id, created: mailingTime(createdAt), started, status, sent, rate: sent === 0 ? 0 : 1, ...list },
    dice,
  );
}

const campaignStatuses = 'sent save sent sent schedule sent sent paused sent sent sending sent'.split(' ');
const campaignTypes = 'regular regular plaintext variate regular rss absplit'.split(' ');

/** Two of three campaigns are sent or being sent before all revisions; the others show every other status. */
function isOut(index: number): boolean {
  return campaignStatuses[index % 12]?.startsWith('sen') === true;
}

type Campaign = ReturnType<typeof planCampaign>;

/** `recipients`: so many of the first members of the list. `sentIn`: the revision that sent it; 0: before all. */
function planCampaign(things: Things, campaign: Thing, listOf: ListOf) {
  const { index, createdAt, madeIn, parent } = campaign;
  const { revision } = things;
  if (parent === null) throw new Error('expected a campaign with a list');
  const list = listOf(parent);
  const sentIn = madeIn === 0 ? 0 : madeIn + 2;
  const isSent = madeIn === 0 ? isOut(index) : revision >= sentIn;
  const first = createdAt + dayMs + diceFor(things.seed, 4, index).below(7_200) * 1_000;
  const status = madeIn === 0 ? (campaignStatuses[index % 12] ?? '') : isSent ? 'sent' : 'save';
  const recipients = Math.min(madeIn === 0 ? 2_500 : 40, list.memberCount);
  return {
    things,
    campaign,
    list,
    listName: parent.text,
    index,
    sentIn,
    status,
    recipients,
    type: madeIn === 0 ? (campaignTypes[index % 7] ?? '') : 'regular',
    sentAt: !isSent ? null : madeIn === 0 ? first : revisionTime(sentIn) + hourMs,
    sent: status === 'sent' ? recipients : status === 'sending' ? Math.ceil(recipients / 2) : 0,
  };
}

/** `entity`: `campaigns`, or `reports` of those that have left. */
function campaignRecord(entity: string, campaign: Campaign): JsonObject {
  const { things, campaign: thing, list, listName, index, type, status, sent, sentAt, recipients } = campaign;
  const dice = things.dice(thing, 1);
  const preview = index % 5 === 3 ? longText : '';
  const { id, text: title, createdAt } = thing;
  const written =
    sentAt === null ? {} : { subject: title, preview, from: 'Editor', replyTo: 'editor@example.test' };
  const values = {
    id,
    title,
    type,
    status,
    sent,
    recipients,
    list: list.id,
    listName,
    number: 135e5 + index * 17,
    ...written,
    created: mailingTime(createdAt),
    sentAt: sentAt === null ? '' : mailingTime(sentAt),
    folder: index % 4 === 2 ? `folder${index % 8}` : '',
    isOut: status === 'sent' && type === 'regular',
    delivery: status === 'sending' ? template('delivery', { sent }, dice) : { enabled: false },
    orders: index % 9,
  };
  const counted = sentAt === null ? {} : { ...activityCounts(campaign), left: leaversOf(campaign).length };
  const all = { ...values, ...counted };
  const summary = sentAt === null ? undefined : template('summary', all, dice);
  return { ...template(entity, { ...all, summary }, dice), ...template(`${entity} ${type}`, all, dice) };
}

/** The sums of the rows of a campaign's activity. Looks once at each recipient, who are few in every account. */
const activityCounts = remembered((campaign: Campaign) => {
  const rows = Array.from({ length: campaign.sent }, (_, index) => actionsOf(campaign, index));
  const all = rows.flat();
  const timesOf = (action: string): readonly number[] =>
    all.filter((one) => one.action === action).map(({ at }) => at);
  /** The first time of each recipient that did so. */
  const firstOf = (action: string): readonly number[] =>
    rows.flatMap((row) => row.find((one) => one.action === action)?.at ?? []);
  const lastOf = (times: readonly number[]): string =>
    times.length === 0 ? '' : mailingTime(times.reduce((left, right) => Math.max(left, right)));
  const [opens, openers] = [timesOf('open'), firstOf('open')];
  const [clicks, clickers] = [timesOf('click'), firstOf('click')];
  const firstHour = Math.floor((campaign.sentAt ?? 0) / hourMs);
  return {
    opens: opens.length,
    openers: openers.length,
    openRate: openers.length / campaign.sent,
    clicks: clicks.length,
    clickers: clickers.length,
    clickRate: clickers.length / campaign.sent,
    lastOpen: lastOf(opens),
    lastClick: lastOf(clicks),
    links: rows.reduce((sum, row) => sum + new Set(row.flatMap(({ url }) => url ?? [])).size, 0),
    hard: all.filter(({ type }) => type === 'hard').length,
    soft: all.filter(({ type }) => type === 'soft').length,
    hours: Array.from({ length: 24 }, (_, hour) => {
      const isNow = (at: number): boolean => Math.floor(at / hourMs) === firstHour + hour;
      const timestamp = mailingTime((firstHour + hour) * hourMs);
      const counts = {
        unique_opens: openers.filter(isNow).length,
        recipients_clicks: clickers.filter(isNow).length,
      };
      return {
        timestamp,
        emails_sent: hour === 0 ? campaign.sent : 0,
        ...counts,
      };
    }),
  };
});

interface Action {
  readonly at: number;
  readonly action: 'open' | 'click' | 'bounce';
  readonly url?: string;
  readonly type?: 'hard' | 'soft';
  readonly ip?: string;
}

/** The actions of a recipient, oldest first: none, a bounce, or opens that may each lead to a click. */
function actionsOf(campaign: Campaign, index: number): readonly Action[] {
  const dice = diceFor(campaign.things.seed, 5, campaign.index, index);
  // Recipients answer a campaign of a revision within the same revision.
  const pace = campaign.sentIn === 0 ? 1_000 : 10;
  const fate = dice.below(100);
  let at = (campaign.sentAt ?? 0) + dice.below(3_600) * pace;
  const late = lateActions(campaign, index);
  if (fate < 40) return late;
  if (fate < 45) return [{ at, action: 'bounce', type: dice.pick(['hard', 'soft']) }, ...late];
  const ip = `192.0.2.${dice.below(256)}`;
  const opens = Array.from({ length: 1 + dice.below(3) }, () => {
    at += (1 + dice.below(86_400)) * pace;
    const open: Action = { at, action: 'open', ip };
    if (!dice.chance(35)) return [open];
    at += (2 + dice.below(60)) * pace;
    return [open, { at, action: 'click' as const, url: `https://example.test/offer?n=${index % 3}`, ip }];
  });
  return [...opens.flat(), ...late];
}

/** A revision brings every third campaign opens and clicks, of one in two hundred recipients, and at least of one. */
function lateActions(
  { things, sentIn, index: campaign, recipients }: Campaign,
  index: number,
): readonly Action[] {
  const actions: Action[] = [];
  for (let turn = sentIn + 1; turn <= things.revision; turn += 1) {
    if ((turn + campaign) % 3 !== 0 || (turn + index) % Math.min(200, recipients) !== 0) continue;
    const at = revisionTime(turn) + 3 * hourMs + index * 1_000;
    const ip = `203.0.113.${index % 256}`;
    actions.push({ at, action: 'open', ip });
    if (turn % 2 === 0) {
      actions.push({ at: at + 20_000, action: 'click', url: `https://example.test/offer?n=${turn}`, ip });
    }
  }
  return actions;
}

/** One row per recipient, many without any activity. `since` leaves the rows and shortens their arrays. */
function activityListing(campaign: Campaign, { since }: Params): Listing {
  const passes = since === undefined ? () => true : timeTest('since', since);
  return computedListing(campaign.sent, (index) => ({
    ...recipientFields(campaign, index),
    activity: actionsOf(campaign, index)
      .filter(({ at }) => passes(at))
      .map(({ at, action, ...rest }) => ({ action, timestamp: mailingTime(at), ...rest })),
  }));
}

function recipientFields({ campaign, list }: Campaign, index: number): JsonObject {
  const { email } = personOf(list, index);
  const recipient = { email_id: memberId(email), email_address: email };
  return { campaign_id: campaign.id, list_id: list.id, list_is_active: true, ...recipient };
}

/**
 * Members that unsubscribed through a campaign, and when. Before all revisions they did so in turns through the
 * campaigns that went to the list; later through the first of them.
 */
const leaversOf = remembered(({ things, list, campaign, recipients, sentAt }: Campaign) => {
  const siblings = things.first('campaigns', (one) => one.parent === campaign.parent && isOut(one.index));
  const turn = siblings.indexOf(campaign);
  if (turn < 0) return [];
  const all = Array.from({ length: recipients }, (_, index) => index);
  const gone = all.filter((index) => statusIn(list, index) === 'unsubscribed');
  const early = gone.filter((_, place) => Math.floor(place / 2) % siblings.length === turn);
  const atFirst = (index: number): number => (sentAt ?? 0) + ((index * 977) % (3 * 86_400)) * 1_000;
  const late = turn > 0 ? [] : all.flatMap((index) => (gone.includes(index) ? [] : departureOf(list, index)));
  return [
    ...early.map((index) => ({ index, at: atFirst(index) })),
    ...late.sort((left, right) => left.at - right.at),
  ];
});

function leaverListing(campaign: Campaign): Listing {
  const leavers = leaversOf(campaign);
  return computedListing(leavers.length, (place) => {
    const { index, at } = leavers[place] ?? { index: 0, at: 0 };
    const dice = diceFor(campaign.things.seed, 9, campaign.index, index);
    return {
      ...recipientFields(campaign, index),
      merge_fields: mergeFields(personOf(campaign.list, index), dice),
      vip: traitsOf(campaign.list, index).isVip,
      timestamp: mailingTime(at),
      reason: dice.pick(['Did not signup for list', 'No longer interested', 'None given']),
    };
  });
}
