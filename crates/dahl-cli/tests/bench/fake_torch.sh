#!/bin/sh
# Pretends to be a Python with torch, so that the comparison can be tested without one. $FAKE says what goes wrong.
case $FAKE in missing)
    echo "ModuleNotFoundError: No module named 'torch'" >&2
    exit 1
    ;;
esac
case $2 in
*torch_bench*) ;;
*) exit 0 ;;
esac
read -r sources
read -r settings
case $sources in
*'"models"'*) ;;
*) exit 5 ;;
esac
case $settings in
*'"mode":"compile"'*)
    echo '{"error": "there is no C++ compiler"}'
    exit 1
    ;;
esac
# Without page faults it takes half the time.
seconds=2
[ -n "$MALLOC_MMAP_THRESHOLD_" ] && seconds=1
echo '{"ready": {"version": "0", "data_bytes": 1000, "start_bytes": 5000, "ready_bytes": 6000}}'
while read -r turn; do
    case $FAKE in dying)
        echo "out of memory" >&2
        exit 9
        ;;
    esac
    # Interrupted for most of the time, or never.
    case $FAKE in
    disturbed) all=${seconds}00 ;;
    *) all=${seconds}0 ;;
    esac
    echo "{\"turn\": {\"steps\": 10, \"seconds\": $all, \"step_seconds\": $seconds, \"peak_bytes\": 9000}}"
done
