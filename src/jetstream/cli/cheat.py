"""`jetstream cheat`: worked examples by topic."""

import click

from jetstream.cli.app import command as make_command
from jetstream.cli.output import say
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure

SHEETS: dict[str, str] = {
    "server": """
# a server with JetStream in ./data, monitoring on 8222
jetstream server -js -sd data -m 8222

# one that forgets everything
jetstream server --ephemeral -js -p -1

# is it well?
jetstream server check connection
jetstream rtt
""",
    "stream": """
# make a stream that captures orders.* and keeps a week
jetstream stream add ORDERS --subjects 'orders.*' --max-age 7d --defaults

# look at it
jetstream stream ls
jetstream stream info ORDERS
jetstream stream view ORDERS
jetstream stream subjects ORDERS

# change it: shows the difference and asks
jetstream stream edit ORDERS --max-bytes 10GB

# as a file, and back
jetstream stream info ORDERS -j > ORDERS.json
jetstream stream add --config ORDERS.json

# save it, and bring it back
jetstream stream backup ORDERS backups/orders
jetstream stream restore backups/orders

# empty it, remove it
jetstream stream purge ORDERS --keep 100
jetstream stream rm ORDERS
""",
    "consumer": """
# a pull consumer, read five messages and acknowledge them
jetstream consumer add ORDERS work --pull --defaults
jetstream consumer next ORDERS work --count 5

# a push consumer with retries that get slower
jetstream consumer add ORDERS push --target out.orders --ack explicit --backoff linear

# why does nothing come?
jetstream consumer explain ORDERS work

# stop it for a while
jetstream consumer pause ORDERS work 30m
jetstream consumer resume ORDERS work
""",
    "pub": """
# one message, a hundred, one every two seconds until Ctrl-C
jetstream pub orders.us 'an order'
jetstream pub orders.us --count 100 'order {{Count}} at {{TimeStamp}}'
jetstream pub orders.us --count=-1 --sleep=2s '{{JSON}}'

# wait until it is stored, with an id against duplicates
jetstream pub orders.us -J --msg-id '{{ID}}' 'an order'

# every line of a file
jetstream pub logs --send-on newline < app.log
""",
    "sub": """
# everything below orders, as it comes
jetstream sub 'orders.>'

# what a stream holds, then stop
jetstream sub 'orders.*' --all --terminate-at-end

# requests and answers
jetstream reply help.me 'it is {{Time}}'
jetstream req help.me ''
""",
    "kv": """
jetstream kv add profiles --history 5
jetstream kv put profiles sue.color blue
jetstream kv get profiles sue.color
jetstream kv watch profiles
jetstream kv history profiles sue.color
jetstream kv update profiles sue.color red 1
jetstream kv del profiles sue.color
""",
    "object": """
jetstream object add files
jetstream object put files report.pdf
jetstream object ls files
jetstream object get files report.pdf -O copy.pdf
tar cz src | jetstream object put files --name src.tar.gz
""",
    "apply": """
# streams.yaml:
#   streams:
#     - name: ORDERS
#       subjects: [orders.*]
#       max_age: 7d
#       consumers:
#         - name: work
#   kv:
#     - bucket: profiles
jetstream plan -f streams.yaml       # exit code 1 when something would change
jetstream apply -f streams.yaml
jetstream export > streams.yaml
""",
    "context": """
jetstream context add prod -s nats://prod:4222 --creds prod.creds --select
jetstream context ls
jetstream stream ls --context prod
jetstream context select -           # the one before
""",
    "bench": """
jetstream bench pub test --msgs 1000000 --size 128
jetstream bench js pub async test --create --batch 500
jetstream bench js fetch --batch 500
""",
    "dlq": """
# a consumer that gives up after five tries and keeps what failed
jetstream consumer add ORDERS work --pull --max-deliver 5 \\
    --metadata jsx.dead_letter.stream=DEAD --defaults
jetstream dlq ls DEAD
jetstream dlq show DEAD 1
jetstream dlq redrive DEAD 1
""",
}


@make_command(
    "cheat",
    help="Worked examples; without a topic the list of topics.",
    examples="jetstream cheat stream",
)
@click.argument("topic", required=False)
def command(topic: str | None) -> None:
    if topic is None:
        say("Topics: " + ", ".join(SHEETS))
        return
    if topic not in SHEETS:
        raise Failure(f"no examples for {topic!r}", nearest_hint(topic, SHEETS, "jetstream cheat"))
    say(SHEETS[topic].strip())
